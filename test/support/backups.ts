/** `blockdelta backup` as a process beside a running plugin, and what a test needs to judge its images. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { checkImage, compareImages } from '../../src/tools/nbd/image.js';
import { type Ended, runCommand } from './command.js';

/** The result of `--json`. */
export interface BackupJson {
  image: string;
  manifest: string;
  new: boolean;
  method: string;
  reason: string | null;
  base_snapshot_id: string | null;
  range_bytes: string;
}

export interface Place {
  endpoint: string;
  /** Of the backups. */
  directory: string;
  /** For sockets, and records of temporary volumes. */
  temporary: string;
}

export function runBackup(
  t: TestContext,
  { endpoint, directory, temporary }: Place,
  snapshot: string,
  ...more: string[]
): Promise<Ended> {
  const args = ['backup', snapshot, '--to', directory, '--json', ...more];
  return runCommand(t, args, { CSI_ENDPOINT: endpoint, BLOCKDELTA_RUNTIME_DIR: temporary });
}

/** Runs a backup that must succeed. */
export async function backedUp(
  t: TestContext,
  place: Place,
  snapshot: string,
  ...more: string[]
): Promise<BackupJson> {
  const { code, stdout, stderr } = await runBackup(t, place, snapshot, ...more);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as BackupJson;
}

/** The image reads as the device or file, and qemu-img finds nothing wrong with it. */
export async function assertSame(device: string, image: string): Promise<void> {
  const { corruptions, leaks, errors } = await checkImage(image);
  assert.deepEqual([corruptions, leaks, errors], [0, 0, 0], image);
  const a = { path: device, format: 'raw' } as const;
  const { isSame, detail } = await compareImages(a, { path: image, format: 'qcow2' });
  assert.ok(isSame, `${image}: ${detail}`);
}
