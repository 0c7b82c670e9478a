/** `pools`, `volumes`, `doctor` and `gc` on a node with a dm-thin pool, its first one: tests of plugin.test.ts. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { Command } from 'commander';
import { ledgerContents } from '../../src/backends/thin/ledger/ledger-contents.js';
import { PoolNames } from '../../src/backends/thin/pool/pool-names.js';
import { addDoctorCommand } from '../../src/cli/inspection/doctor-command.js';
import { addGcCommand } from '../../src/cli/inspection/gc-command.js';
import { addPoolsCommand, addVolumesCommand } from '../../src/cli/inspection/list-commands.js';
import { loadAddon } from '../../src/native/addon.js';
import { MIB } from '../support/orchestrator.js';
import type { PluginHere } from '../support/plugin-here.js';
import type { RunningPluginBy } from '../support/running-plugin.js';
import { readBlock, writeBlocks } from './dm-setup.js';
import { guestTest } from './guest.js';

type Row = Record<string, unknown>;

const SECTOR = 512;

type Running = RunningPluginBy<PluginHere>;
type Print = (name: string, ...args: string[]) => Promise<string>;

/** What a command prints, run in this process: starting one takes seconds on an emulated processor. */
async function run(t: TestContext, args: readonly string[]): Promise<string> {
  const program = new Command();
  for (const add of [addPoolsCommand, addVolumesCommand, addDoctorCommand, addGcCommand])
    add(program);
  let printed = '';
  const write = t.mock.method(process.stdout, 'write', (text: string, written?: () => void) => {
    printed += text;
    written?.();
    return true;
  });
  const streams = [process.stdout, process.stderr].map((stream) => ({
    stream,
    listeners: stream.listeners('error'),
  }));
  try {
    await program.parseAsync([...args, '--json'], { from: 'user' });
  } finally {
    write.mock.restore();
    // What only the end of a process takes back.
    process.exitCode = 0;
    for (const { stream, listeners } of streams) {
      const added = stream.listeners('error').filter((each) => !listeners.includes(each));
      for (const listener of added) stream.off('error', listener as () => void);
    }
  }
  return printed;
}

const rows = async (print: Print, name: string): Promise<Row[]> =>
  JSON.parse(await print(name)) as Row[];

const poolFindings = async (print: Print): Promise<string> =>
  JSON.stringify(
    (await rows(print, 'doctor')).find(({ check }) => check === 'pools')?.['findings'],
  );

const isMapped = (name: string): boolean => {
  const answer = loadAddon().dmFind({ name });
  return answer.ok && answer.device !== null;
};

export function testInspection(running: Running, pool: string): void {
  guestTest('a thin pool is listed, examined, and only its idle device is removed', async (t) => {
    const names = ['NODE_ID', 'STATE_DIR', 'POOLS'].map((name) => `BLOCKDELTA_${name}`);
    for (const name of names) process.env[name] = running.plugin.environment[name];
    try {
      await inspect(running, pool, (...args) => run(t, args));
    } finally {
      for (const name of names) delete process.env[name];
    }
  });
}

async function inspect(running: Running, pool: string, print: Print): Promise<void> {
  const { orchestrator } = running;
  const used = await orchestrator.create('used', { sizeBytes: 16 * MIB });
  const idle = await orchestrator.create('idle', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(used);
  const { pool: identity, devices } = await ledgerContents(running.poolPath(pool, 'pool.sqlite'));
  const names = new PoolNames(identity.uuid);

  const [listed] = await rows(print, 'pools');
  assert.equal(listed?.['kind'], 'thin');
  assert.equal((listed?.['thin'] as Row | undefined)?.['mode'], 'rw');
  const device = (await rows(print, 'volumes')).find(({ id }) => id === used.id)?.['device'];
  assert.match(String(device), /^\/dev\/dm-\d+$/);
  assert.equal(await poolFindings(print), '[]');
  execFileSync('dmsetup', ['message', names.pool, '0', 'reserve_metadata_snap']);
  assert.match(await poolFindings(print), /holds a metadata snapshot/);
  execFileSync('dmsetup', ['message', names.pool, '0', 'release_metadata_snap']);

  // Left active, because a volume is attached.
  await running.plugin.stop();
  await writeBlocks(target, 4, 1);
  const created = loadAddon().dmFind({ name: names.pool });
  assert.ok(created.ok && created.device !== null);
  const record = devices.find(({ objectId }) => objectId === idle.id);
  const request = { readOnly: false, sizeSectors: BigInt((16 * MIB) / SECTOR) };
  const left = loadAddon().dmCreate({
    ...{ ...request, name: names.volume(idle.id), type: 'thin' },
    uuid: names.volumeUuid(idle.id, { readOnly: false }),
    table: `${created.device.path} ${record?.deviceId}`,
  });
  assert.ok(left.ok);
  const foreign = { ...request, name: 'blockdelta-of-somebody', uuid: 'SOMEBODY-1' };
  assert.ok(loadAddon().dmCreate({ ...foreign, type: 'error', table: '' }).ok);

  const found = JSON.parse(await print('gc', '--apply')) as { objects: Row[] };
  assert.deepEqual(
    found.objects.map(({ kind, object, removed }) => [kind, object, removed]),
    [['device of a thin volume', left.device.path, true]],
  );
  assert.ok(!isMapped(names.volume(idle.id)));
  assert.ok(isMapped(names.volume(used.id)) && isMapped('blockdelta-of-somebody'));
  assert.ok(loadAddon().dmRemove({ name: 'blockdelta-of-somebody', deferred: false }).ok);
  await running.start();
  // The publication is found and can be used on.
  const { rdev } = statSync(target);
  assert.equal(statSync(await orchestrator.publish(used)).rdev, rdev);
  assert.equal(await readBlock(target, 1), 4);
  await orchestrator.takeDown(used);
  for (const volume of [used, idle]) await orchestrator.delete(volume);
}
