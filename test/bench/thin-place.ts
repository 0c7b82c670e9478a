/** Where the metadata of the rows thin-* lies: in memory, and on the disk behind a loop device. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Settings } from '../../src/bench/suite.js';
import { Workspace } from '../support/workspace.js';

const run = promisify(execFile);
const MEMORY = '/dev/shm';
const TMPFS_MAGIC = 0x01021994;
const NEEDED_BYTES = 2 ** 30;

export interface Places {
  /** A path in memory. */
  memoryPath(name: string): string;
  workspace: Workspace;
}

export function makePlaces({ cleanup }: Settings): Places {
  const { type, bavail, bsize } = statfsSync(MEMORY);
  if (type !== TMPFS_MAGIC || bavail * bsize < NEEDED_BYTES) {
    throw new Error(`thin needs a tmpfs with a free GiB at ${MEMORY}: the metadata in memory`);
  }
  const directory = mkdtempSync(join(MEMORY, 'blockdelta-bench-'));
  cleanup.defer(() => rmSync(directory, { recursive: true, force: true }));
  const workspace = new Workspace('bench');
  cleanup.defer(() => workspace.dispose());
  return { memoryPath: (name) => join(directory, name), workspace };
}

/**
 * A block device with the file's content: a copy on the disk, behind a loop device that reads it past
 * the page cache. thin_delta and the native scan both read a device past the page cache, so this is
 * one medium for both. Swept with the workspace.
 */
export async function onDisk(workspace: Workspace, file: string, name: string): Promise<string> {
  const copy = workspace.path(name);
  await run('cp', ['--sparse=always', file, copy]);
  await run('sync', [copy]);
  const options = ['--find', '--show', '--read-only', '--direct-io=on'];
  const { stdout } = await run('losetup', [...options, copy]);
  return stdout.trim();
}

export async function removeFromDisk(
  workspace: Workspace,
  device: string,
  name: string,
): Promise<void> {
  await run('losetup', ['--detach', device]);
  rmSync(workspace.path(name));
}
