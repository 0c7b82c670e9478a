/**
 * Four nights of a volume with Velero's block data mover, and a restore in place to the second one between the last two. Holds for
 * any pool and any node: callers say how volumes are made and what happens meanwhile.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BlockContents, type Contents, FileContents, type VolumeKind, writeDurably } from './contents.js';
import { blockCapability, mountCapability } from './csi-client.js';
import { type HeldVolume, MIB, type Orchestrator, type VolumeSpec } from './orchestrator.js';
import type { Random } from './random.js';
import type { StoredBackup, VeleroMover } from './velero-mover.js';

/** None is a multiple of the mover's chunks. */
const SIZES: Readonly<Record<VolumeKind, readonly [number, number]>> = {
  block: [24.5 * MIB, 32.25 * MIB],
  ext4: [40.5 * MIB, 56.25 * MIB],
  xfs: [300.5 * MIB, 348.25 * MIB],
  btrfs: [256.5 * MIB, 320.25 * MIB],
};

/** What is written after the backup that is restored, most of it where there were zeros. */
const LATER_BYTES = 3 * MIB;
const BLOCK = 4096;
const LATER = 'later';

export interface NightsOptions {
  kind: VolumeKind;
  /** The backup after which the volume grows; the second one is restored. */
  grownAfter: 1 | 2;
  random: Random;
  /** Calls the node of the volume. */
  orchestrator: Orchestrator;
  create: (spec: VolumeSpec) => Promise<HeldVolume>;
  mover: VeleroMover;
  /** After each backup. */
  onBackup?: (number: number) => Promise<void>;
}

/** Returns a line with the figures of each night. */
export async function proveNights(options: NightsOptions): Promise<string> {
  const { kind, grownAfter, random, orchestrator, mover } = options;
  const [sizeBytes, grownBytes] = SIZES[kind];
  const capability = kind === 'block' ? blockCapability() : mountCapability(kind);
  const volume = await options.create({ capability, sizeBytes });
  const target = await orchestrator.bringUp(volume);
  const figures: string[] = [];
  let nights = 0;
  let size = sizeBytes;
  let contents = kind === 'block' ? await halfFull(target, sizeBytes, random) : new FileContents();

  const work = async (times: number): Promise<void> => {
    for (let count = 0; count < times; count += 1) await contents.work(target, random);
  };
  const backUp = async (): Promise<StoredBackup> => {
    const backup = await mover.backUp(volume.id);
    nights += 1;
    const { method, reason, listedBytes, copiedBytes } = backup;
    figures.push(`${method} ${listedBytes} (${copiedBytes / MIB} chunks)`);
    assert.equal(backup.image.sizeBytes, size);
    assert.equal(method, nights === 1 ? 'allocated' : 'delta', `backup ${nights}: ${reason}`);
    if (nights > 1) assert.ok(listedBytes < size / 4, `backup ${nights}: ${listedBytes} bytes of ${size} are listed`);
    // Nothing has written to a raw volume since its snapshot.
    if (kind === 'block') backup.image.assertHeldBy(target);
    await options.onBackup?.(nights);
    return backup;
  };
  const grow = async (): Promise<void> => {
    // A mounted ext4 needs a capability that containers may lack.
    const isMountedMeanwhile = kind !== 'ext4';
    if (!isMountedMeanwhile) await orchestrator.takeDown(volume);
    size = await orchestrator.expand(volume, grownBytes);
    assert.equal(size, grownBytes);
    if (isMountedMeanwhile) await orchestrator.nodeExpand(volume);
    else await orchestrator.bringUp(volume);
    contents.grow(size);
  };

  await work(8);
  await backUp();
  if (grownAfter === 1) await grow();
  await work(3);
  const restored = await backUp();
  if (grownAfter === 2) await grow();
  const wanted = contents.copy();

  await work(3);
  await writeLater(kind, target, size, random.bytes(LATER_BYTES));
  await backUp();

  await orchestrator.takeDown(volume);
  const { writtenBytes, zeroedBytes } = await mover.restoreInPlace(volume, restored);
  figures.push(`restored ${writtenBytes} and ${zeroedBytes} zeros`);
  assert.ok(writtenBytes > 0 && zeroedBytes > 0);
  assert.ok(writtenBytes + zeroedBytes < size / 4, 'the restore writes what has changed');

  await orchestrator.bringUp(volume);
  await wanted.verify(target);
  if (kind !== 'block') assert.ok(!existsSync(join(target, LATER)));
  contents = wanted;
  await work(3);
  await backUp();
  await contents.verify(target);
  await orchestrator.remove(volume);
  return figures.join('; ');
}

async function halfFull(target: string, sizeBytes: number, random: Random): Promise<Contents> {
  const bytes = random.bytes(Math.floor(sizeBytes / MIB / 2) * MIB);
  await writeDurably(target, 'r+', (file) => file.write(bytes, 0, bytes.length, 0));
  return new BlockContents(Buffer.concat([bytes], sizeBytes));
}

async function writeLater(kind: VolumeKind, target: string, sizeBytes: number, bytes: Buffer): Promise<void> {
  if (kind !== 'block') {
    await writeDurably(join(target, LATER), 'w', (file) => file.write(bytes));
    return;
  }
  await writeDurably(target, 'r+', async (file) => {
    await file.write(bytes, 0, BLOCK, 0);
    await file.write(bytes, 0, bytes.length, sizeBytes - bytes.length);
  });
}
