/** `blockdelta backup` as a process beside a running plugin, and what a test needs to judge its images. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import type { TestContext } from 'node:test';
import { checkImage, compareImages } from '../../src/nbd/image.js';
import { type Ended, endOf, startCommand } from './command.js';
import type { HeldVolume } from './orchestrator.js';
import type { Random } from './random.js';

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

export interface StartedBackup {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

export function startBackup(
  t: TestContext,
  { endpoint, directory, temporary }: Place,
  snapshot: string,
  ...more: string[]
): StartedBackup {
  const args = ['backup', snapshot, '--to', directory, '--json', ...more];
  const { child, output } = startCommand(t, args, {
    CSI_ENDPOINT: endpoint,
    BLOCKDELTA_RUNTIME_DIR: temporary,
  });
  child.stdout.on('data', (data: Buffer) => {
    output.stdout += data.toString();
  });
  return { child, ended: endOf(child, output) };
}

/** Runs a backup that must succeed. */
export async function backedUp(
  t: TestContext,
  place: Place,
  snapshot: string,
  ...more: string[]
): Promise<BackupJson> {
  const { code, stdout, stderr } = await startBackup(t, place, snapshot, ...more).ended;
  assert.equal(code, 0, stderr);
  return JSON.parse(stdout) as BackupJson;
}

type Published = Pick<HeldVolume, 'targetPath'>;

/** Writes random bytes to a published block volume, and flushes them. */
export function writeRandom(
  volume: Published,
  random: Random,
  offset: number,
  length: number,
): void {
  write(volume, offset, random.bytes(length));
}

/** Writes zeros, and flushes them. */
export function writeZeros(volume: Published, offset: number, length: number): void {
  write(volume, offset, Buffer.alloc(length));
}

function write({ targetPath }: Published, offset: number, bytes: Buffer): void {
  const device = openSync(targetPath, 'r+');
  writeSync(device, bytes, 0, bytes.length, offset);
  fsyncSync(device);
  closeSync(device);
}

/** The image reads as the device or file, and qemu-img finds nothing wrong with it. */
export async function assertSame(device: string, image: string): Promise<void> {
  const { corruptions, errors } = await checkImage(image);
  assert.deepEqual({ corruptions, errors }, { corruptions: 0, errors: 0 }, image);
  const a = { path: device, format: 'raw' } as const;
  const { isSame, detail } = await compareImages(a, { path: image, format: 'qcow2' });
  assert.ok(isSame, `${image}: ${detail}`);
}
