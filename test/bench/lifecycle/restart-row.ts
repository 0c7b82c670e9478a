/** Row lifecycle-restart: eight clients repeat and undo what a plugin that has just restarted finds staged. */
import { type Volume, Volumes, XFS } from '../../../src/tools/bench/measured-volumes.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import type { StoppedPlugin } from './start-row.js';

const STAGED = { full: 100, tiny: 4 } as const;
const CLIENTS = 8;
/** All together fit into the pool, as xfs, which has 300 MiB at least, would not. */
const VOLUME_BYTES = 64 * 2 ** 20;
const EXT4 = { ...XFS, mount: { fs_type: 'ext4' } };

/** Leaves the plugin running and without a volume of the row. */
export async function restartRow(settings: Settings, workspace: Workspace, plugin: StoppedPlugin): Promise<Row> {
  let running = await plugin.start();
  const volumes = new Volumes(settings, running.driver, workspace);
  const numbers = Array.from({ length: STAGED[settings.size] }, (_, index) => index);
  const staged: Volume[] = [];
  await byClients(numbers, async () => {
    const volume = await volumes.create(EXT4, VOLUME_BYTES);
    await volumes.stage(volume);
    staged.push(volume);
  });
  const restarted = async (): Promise<void> => {
    await running.stop();
    running = await plugin.start();
    volumes.driver = running.driver;
  };
  const kept = (): Promise<void> => Promise.resolve();
  const found = await shuffledRounds(settings, [restarted, kept], async (prepare) => {
    await prepare();
    const started = performance.now();
    await byClients(staged, async (volume) => {
      await volumes.stage(volume);
      await volumes.publish(volume);
      await volumes.unpublish(volume);
      await volumes.unstage(volume);
    });
    const ms = performance.now() - started;
    await byClients(staged, (volume) => volumes.stage(volume));
    return ms;
  });
  await byClients(staged, async (volume) => {
    await volumes.unstage(volume);
    await volumes.deleteVolume(volume);
  });
  return {
    name: 'lifecycle-restart',
    measures: `all four calls of ${staged.length} staged volumes by ${CLIENTS} clients, right after a restart of the plugin beside none`,
    ours: { label: 'restarted', unit: 'ms', rounds: found.get(restarted) ?? [] },
    peer: { label: 'running', unit: 'ms', rounds: found.get(kept) ?? [] },
    facts: { volumes: staged.length, clients: CLIENTS },
  };
}

async function byClients<T>(inputs: readonly T[], call: (input: T) => Promise<void>): Promise<void> {
  const queue = inputs.values();
  const client = async (): Promise<void> => {
    for (const input of queue) await call(input);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}
