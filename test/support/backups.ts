/** `blockdelta backup` as a process beside a running plugin, and what a test needs to judge its images. */
import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import type { TestContext } from 'node:test';
import { chainOf } from '../../src/tools/backup/chains.js';
import { DirectoryRepository } from '../../src/tools/backup/directory-repository.js';
import { imagePathOf, imagesOf } from '../../src/tools/backup/stored-backup.js';
import { checkImage, compareImages } from '../../src/tools/nbd/image.js';
import type { ImageChain } from '../../src/tools/nbd/image-chain.js';
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
export async function backedUp(t: TestContext, place: Place, snapshot: string, ...more: string[]): Promise<BackupJson> {
  const { code, stdout, stderr } = await runBackup(t, place, snapshot, ...more);
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as BackupJson;
}

/** The image, by its manifest, reads as the device or file, and qemu-img finds nothing wrong with it. */
export async function assertSame(device: string, image: string): Promise<void> {
  const { corruptions, leaks, errors } = await checkImage(image);
  assert.deepEqual([corruptions, leaks, errors], [0, 0, 0], image);
  const chain = await chainIn(image);
  const { isSame, detail } = await compareImages({ device }, { chain });
  assert.ok(isSame, `${image}: ${detail}`);
}

/** The images that one in a repository consists of. */
export async function chainIn(image: string): Promise<ImageChain> {
  const repository = await DirectoryRepository.open(dirname(dirname(image)), { allowShared: true });
  const volume = (await repository.all()).find(({ directory }) => directory === dirname(image));
  const backup = volume?.backups.find((each) => imagePathOf(each) === image);
  assert.ok(volume !== undefined && backup !== undefined, `no manifest names ${image}`);
  return imagesOf(chainOf(backup, volume));
}
