/**
 * `blockdelta gc`: removes what interrupted runs have left on the node, and prints the proof for each object.
 *
 * Without --apply the command only lists the objects, even beside a running plugin. With --apply it holds the
 * catalogue's lock, so that no plugin runs or starts meanwhile, and searches for the orphans under the lock.
 */
import { join } from 'node:path';
import type { Command } from 'commander';
import { messageOf } from '../../base/errors.js';
import { cell } from '../../base/plain-text.js';
import { type CatalogueLock, lockCatalogue } from '../../driver/catalogue/lock.js';
import { inspectNode, type NodeSettings, nodeSettings } from '../../driver/inspection/node-view.js';
import { findOrphans, type Kept, type Orphan } from '../../driver/inspection/orphans.js';
import { complain, print, runToExitCode } from '../output.js';
import { parsePath } from '../paths.js';
import { STATE_HELP } from './list-commands.js';
import { formatJson } from './tables.js';

interface GcOptions {
  stateDir?: string;
  apply: boolean;
  json: boolean;
}

interface Treated extends Pick<Orphan, 'kind' | 'pool' | 'object' | 'proof'> {
  removed: boolean;
  /** Why the removal failed; null if it succeeded or was not attempted. */
  failure: string | null;
}

const HELP = `
Exit codes:
  0   nothing failed
  1   an object could not be removed, a plugin is running, or the node could not be read
  2   wrong usage`;

export function addGcCommand(program: Command): void {
  program
    .command('gc')
    .description('list what interrupted runs have left on this node and nothing needs; with --apply, remove it')
    .option('--state-dir <directory>', STATE_HELP, parsePath)
    .option('--apply', 'remove the objects; the plugin must be stopped', false)
    .option('--json', 'print JSON', false)
    .addHelpText('after', HELP)
    .action(async ({ stateDir, apply, json }: GcOptions) => {
      process.exitCode = await runToExitCode(async () => {
        const settings = nodeSettings(stateDir);
        const found = apply ? await collect(settings) : await listed(settings);
        await print(json ? formatJson(found) : formatLines(found, apply));
        const failed = found.objects.filter(({ failure }) => failure !== null);
        if (failed.length > 0) throw new Error(`${failed.length} objects could not be removed`);
        if (!apply && found.objects.length > 0) complain('nothing was removed: add --apply');
      });
    });
}

interface Collected {
  objects: Treated[];
  kept: Kept[];
}

async function listed(settings: NodeSettings): Promise<Collected> {
  const { orphans, kept } = await findOrphans(await inspectNode(settings));
  return { objects: orphans.map((orphan) => treated(orphan, false, null)), kept };
}

async function collect(settings: NodeSettings): Promise<Collected> {
  // This call rejects if there is no catalogue: a lock without a catalogue would prove nothing.
  await inspectNode(settings);
  const lock = await locked(settings);
  try {
    const { orphans, kept } = await findOrphans(await inspectNode(settings));
    const objects: Treated[] = [];
    for (const orphan of orphans) {
      const failure = await orphan.remove().then(() => null, messageOf);
      objects.push(treated(orphan, failure === null, failure));
    }
    return { objects, kept };
  } finally {
    await lock.release();
  }
}

async function locked({ stateDirectory }: NodeSettings): Promise<CatalogueLock> {
  try {
    return await lockCatalogue(join(stateDirectory, 'catalogue.sqlite'));
  } catch (thrown) {
    throw new Error(`nothing was removed: ${messageOf(thrown)}; stop the plugin first`);
  }
}

function treated({ kind, pool, object, proof }: Orphan, removed: boolean, failure: string | null): Treated {
  return { kind, pool, object, proof, removed, failure };
}

function formatLines({ objects, kept }: Collected, apply: boolean): string {
  const lines = objects.map(({ kind, pool, object, proof, failure }) => {
    const what = !apply ? 'would remove' : failure === null ? 'removed' : `failed (${failure})`;
    const line = `${what}: ${kind} ${object} of pool '${pool}'`;
    return `${cell(line)}\n  proof: ${cell(proof)}\n`;
  });
  const left = kept.map(({ pool, object, reason }) => {
    const line = `left alone: ${object} in pool '${pool}'`;
    return `${cell(line)}\n  reason: ${cell(reason)}\n`;
  });
  const none = objects.length === 0 ? ['nothing to remove\n'] : [];
  return [...lines, ...left, ...none].join('');
}
