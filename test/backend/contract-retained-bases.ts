/**
 * The part of the backend contract about deltas from retained bases, for backends that have any: run
 * through the scanner, compared with the bytes.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../src/driver/backends/backend.js';
import type { NativePool } from '../../src/driver/native/pool.js';
import { assertSound, Tally } from '../support/metadata-check.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import { scanAll } from '../support/wire.js';
import { testLists, work } from './contract-scans.js';
import { type ContractContext, VOLUME_BYTES } from './harness.js';

const ROUNDS = 5;

export function describeRetainedBases(context: ContractContext): void {
  testLists('the lists from bases that are deleted miss no byte, also after a restart', (filler) =>
    compareRounds(context, filler),
  );

  test('a base is retained once, outlives its snapshot, and is dropped once', async () => {
    const { backend } = context;
    const { snapshotId } = await cut(context);
    const kept = await backend.bases.retain(snapshotId, null);
    assert.ok(kept !== null && 'snapshotId' in kept);
    assert.equal(kept.snapshotId, snapshotId);
    assert.deepEqual(await backend.bases.retain(snapshotId, null), kept);
    await backend.snapshots.delete(snapshotId);
    assert.deepEqual(await backend.bases.retain(snapshotId, null), kept);
    assert.deepEqual(backend.bases.all(), { usable: [kept], invalidated: [] });
    assert.ok(!(await backend.list()).snapshots.some(({ id }) => id === snapshotId));
    await backend.bases.drop(snapshotId);
    await backend.bases.drop(snapshotId);
    assert.deepEqual(backend.bases.all(), { usable: [], invalidated: [] });
    assert.equal(await backend.bases.retain(snapshotId, null), null);
  });

  test('a base that was dropped or never retained gives no list, and a retained base cannot be a target', async () => {
    const { backend } = context;
    const { volumeId, snapshotId: base } = await cut(context);
    const target = await context.snapshot(volumeId);
    await backend.bases.retain(base, target);
    await backend.snapshots.delete(base);
    await backend.changes.scan(target, base);
    await refused(backend.changes.scan(base, null), 'FAILED_PRECONDITION');
    await backend.bases.drop(base);
    await refused(backend.changes.scan(target, base), 'FAILED_PRECONDITION');
  });
}

/** A volume with a snapshot, both of which hold something. */
async function cut(context: ContractContext): Promise<{ volumeId: string; snapshotId: string }> {
  const volumeId = await context.volume();
  await context.harness.write(volumeId, 0, Buffer.alloc(65536, 1));
  const snapshotId = await context.snapshot(volumeId);
  await context.harness.release(volumeId);
  return { volumeId, snapshotId };
}

interface Cut {
  id: string;
  image: SnapshotImage;
}

/** Every snapshot but the newest is kept and deleted, so every base of a pair is a deleted one. */
async function compareRounds(context: ContractContext, filler: NativePool): Promise<Tally> {
  const { backend, harness } = context;
  const random = seededRandom('kept bases contract');
  const volumeId = await context.volume();
  const model = Buffer.alloc(VOLUME_BYTES);
  const bases: Cut[] = [];
  const tally = new Tally();
  let target: Cut | undefined;
  for (let round = 0; round < ROUNDS; round += 1) {
    if (target !== undefined) {
      await backend.bases.retain(target.id, null);
      await backend.snapshots.delete(target.id);
      bases.push(target);
    }
    await work(context, volumeId, { model, random });
    const image = SnapshotImage.of(model, target?.image);
    target = { id: await context.snapshot(volumeId), image };
    const pending = bases.at(-1);
    if (pending !== undefined) {
      await backend.bases.retain(pending.id, target.id);
      await backend.snapshots.delete(pending.id);
    }
    tally.add(await compare(backend, filler, target, bases));
  }
  await harness.release(volumeId);
  assert.ok(target !== undefined);
  tally.add(await compare((await harness.reopen()).backend, filler, target, bases));
  for (const { id } of bases) await backend.bases.drop(id);
  await backend.snapshots.delete(target.id);
  await backend.volumes.delete(volumeId);
  return tally;
}

async function compare(backend: Backend, filler: NativePool, target: Cut, bases: readonly Cut[]): Promise<Tally> {
  const tally = new Tally();
  for (const base of bases) {
    const delta = await scanAll(filler, (await backend.changes.scan(target.id, base.id)).source);
    tally.add(assertSound(base.image, target.image, delta, 'delta from a deleted base'));
  }
  return tally;
}
