/** Options that `thin-delta` and `thin-ls` share. */
import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { CsiError } from '../../base/errors.js';
import { MAX_DEVICE_ID, type SnapshotChoice, type ThinTrees } from '../../driver/inspection/thin-trees.js';
import { NativePool, type NativeRunner } from '../../driver/native/pool.js';
import type { ExitCode } from '../exit-codes.js';
import { runToStatus } from '../failures.js';
import { complain } from '../output.js';
import { parsePath } from '../paths.js';

export interface MetadataOptions {
  metadata?: string;
  /** True, or the option's value. */
  metadataSnap?: true | string;
}

export interface NamedMetadata {
  path: string;
  snapshot: SnapshotChoice;
}

export function addMetadataOptions(command: Command): Command {
  return command
    .argument('[metadata]', 'same as --metadata, where the thin_* tools expect it', parsePath)
    .option('--metadata <path>', "the pool's metadata device, or a file with the same content (required)", parsePath)
    .option(
      '-m, --metadata-snap [block]',
      "read the trees of the pool's metadata snapshot; with a number, only if it is at that block",
    );
}

/**
 * Ends the command on wrong usage. As with the thin_* tools, the value after -m may be the device: only a
 * number is a block.
 */
export function namedMetadata(
  command: Command,
  positional: string | undefined,
  { metadata, metadataSnap }: MetadataOptions,
): NamedMetadata {
  const isBlock = typeof metadataSnap === 'string' && /^\d{1,18}$/.test(metadataSnap);
  const behindSnap = typeof metadataSnap === 'string' && !isBlock ? parsePath(metadataSnap) : undefined;
  const paths = [metadata, positional, behindSnap].filter((path) => path !== undefined);
  const [path] = paths;
  if (path === undefined) {
    return command.error("error: no metadata is given: use --metadata with the pool's metadata device or a file");
  }
  if (paths.length > 1) return command.error(`error: metadata is given twice: ${paths.join(' and ')}`);
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

/** A pool that needs a check is read-only, but its last committed trees can still be read. */
export function warnOfNeedsCheck({ metadata, current }: ThinTrees): void {
  if (current.needsCheck) complain(`${metadata} is marked needs_check: stop its pool and run thin_check`);
}

export async function runOnMetadata(
  { path }: NamedMetadata,
  work: (runner: NativeRunner, signal: AbortSignal) => Promise<void>,
): Promise<ExitCode> {
  const pool = new NativePool(1);
  try {
    return await runToStatus(async (signal) => {
      if (!existsSync(path))
        throw CsiError.notFound(`there is no ${path}: name the metadata device of the pool, or a file`);
      await work(pool, signal);
    });
  } finally {
    await pool.close();
  }
}

export const METADATA_HELP = `
The metadata of an LVM thin pool VG/POOL is /dev/mapper/VG-POOL_tmeta. It is never written to.
The trees of a pool in use change. Snapshots that are not written to can be read at any time; for
other devices reserve a metadata snapshot and use --metadata-snap:
  dmsetup message POOL 0 reserve_metadata_snap     (LVM: POOL is VG-POOL-tpool)
  dmsetup message POOL 0 release_metadata_snap     (afterwards, as it occupies metadata space)

Exit codes:
  0    the whole list was printed, or the reader closed the pipe
  1    another failure
  2    wrong usage
  4    there is no such thin device, or no such metadata
  5    no complete list is possible: no metadata snapshot is held, the trees changed while they
       were read, or the metadata is damaged; do not use a list that was printed in part
  130  stopped by SIGINT or SIGTERM`;
