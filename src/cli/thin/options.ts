/** What `thin-delta` and `thin-ls` share: how the metadata is named, and how failures end. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CsiError } from '../../base/errors.js';
import { NativePool, type NativeRunner } from '../../native/pool.js';
import { ExitCode, exitCodeOfStatus } from '../exit-codes.js';
import { complain, messageOf, runToExitCode, type Verdict } from '../output.js';
import { MAX_DEVICE_ID, type SnapshotChoice, type ThinTrees } from './pool-metadata.js';

export interface MetadataOptions {
  metadata?: string;
  /** True, or the word behind the option. */
  metadataSnap?: true | string;
}

export interface NamedMetadata {
  path: string;
  snapshot: SnapshotChoice;
}

export function addMetadataOptions(command: Command): Command {
  return command
    .argument('[metadata]', 'the same as --metadata, in the place where the thin_* tools take it')
    .option('--metadata <path>', "the pool's metadata: a device or a file")
    .option(
      '-m, --metadata-snap [block]',
      'read the trees that the metadata snapshot holds (held at this block, if one is given)',
    );
}

/**
 * Ends the command when it was named wrongly. As for the thin_* tools, the word behind -m may be the
 * device: only a number is a block.
 */
export function namedMetadata(
  command: Command,
  positional: string | undefined,
  { metadata, metadataSnap }: MetadataOptions,
): NamedMetadata {
  const isBlock = typeof metadataSnap === 'string' && /^\d{1,18}$/.test(metadataSnap);
  const behindSnap = typeof metadataSnap === 'string' && !isBlock ? metadataSnap : undefined;
  const paths = [metadata, positional, behindSnap].filter((path) => path !== undefined);
  const [path] = paths;
  if (path === undefined || path === '') {
    return command.error("error: no metadata: give --metadata, the pool's device or a file");
  }
  if (paths.length > 1) return command.error(`error: two metadata: ${paths.join(' and ')}`);
  if (metadataSnap === undefined) return { path, snapshot: false };
  return { path, snapshot: isBlock ? BigInt(metadataSnap) : true };
}

export function deviceOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((value) => {
    const id = /^\d{1,8}$/.test(value) ? Number(value) : -1;
    if (id >= 0 && id <= MAX_DEVICE_ID) return id;
    throw new InvalidArgumentError(`It must be a whole number from 0 to ${MAX_DEVICE_ID}.`);
  });
}

/** A pool in this state works on, read-only; its last committed trees can be read. */
export function warnOfNeedsCheck({ metadata, current }: ThinTrees): void {
  if (current.needsCheck)
    complain(`${metadata} is marked needs_check: stop its pool, run thin_check`);
}

/** Runs the work with a native thread of its own. */
export async function runOnMetadata(
  work: (runner: NativeRunner, signal: AbortSignal) => Promise<void>,
): Promise<ExitCode> {
  const pool = new NativePool(1);
  try {
    return await runToExitCode((signal) => work(pool, signal), verdictOf);
  } finally {
    await pool.close();
  }
}

function verdictOf(error: unknown): Verdict {
  const code = error instanceof CsiError ? exitCodeOfStatus(error.code) : ExitCode.FAILURE;
  return { code, message: messageOf(error) };
}

export const METADATA_HELP = `
The metadata of an LVM thin pool VG/POOL is /dev/mapper/VG-POOL_tmeta. Nothing is written to it.
While the pool is in use its trees move. Snapshots that nobody writes to can be read all the same;
for anything else hold a metadata snapshot and give --metadata-snap:
  dmsetup message POOL 0 reserve_metadata_snap     (LVM: POOL is VG-POOL-tpool)
  dmsetup message POOL 0 release_metadata_snap     (afterwards: it eats metadata space)

Exit codes:
  0    the whole list was printed, or the reader of the pipe had seen enough
  1    failed otherwise
  2    wrong usage
  4    there is no such thin device
  5    no list can be given: no metadata snapshot is held, the trees moved while they were
       read, or the metadata is damaged; what was printed before must not be used
  130  stopped by SIGINT`;
