/** The part of the backend contract about scan sources: run through the scanner, compared with the bytes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NativePool } from '../../src/driver/native/pool.js';
import { assertSound, Tally } from '../support/metadata-check.js';
import { type Random, seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import { scanAll } from '../support/wire.js';
import { type ContractContext, newSnapshot, VOLUME_BYTES } from './harness.js';

const ROUNDS = 5;

export function describeScans(context: ContractContext): void {
  testLists('the lists of a scan source miss no byte', (filler) => compareRounds(context, filler));

  test('a missing snapshot has no scan source, as target or as base', async () => {
    const { backend } = context;
    const volumeId = await context.volume();
    const snapshotId = await context.snapshot(volumeId);
    const gone = newSnapshot();
    await refused(backend.changes.scan(gone, null), 'FAILED_PRECONDITION');
    await refused(backend.changes.scan(snapshotId, gone), 'FAILED_PRECONDITION');
    await backend.snapshots.delete(snapshotId);
    await refused(backend.changes.scan(snapshotId, null), 'FAILED_PRECONDITION');
  });
}

/** `compare` has its lists filled by that pool. */
export function testLists(title: string, compare: (filler: NativePool) => Promise<Tally>): void {
  test(title, async (t) => {
    const filler = new NativePool(1);
    try {
      const tally = await compare(filler);
      t.diagnostic(String(tally));
      assert.ok(tally.differing > 0);
    } finally {
      await filler.close();
    }
  });
}

async function compareRounds(context: ContractContext, filler: NativePool): Promise<Tally> {
  const { backend, harness } = context;
  const random = seededRandom('backend contract');
  const volumeId = await context.volume();
  const model = Buffer.alloc(VOLUME_BYTES);
  const cuts: { id: string; image: SnapshotImage }[] = [];
  const tally = new Tally();
  for (let round = 0; round < ROUNDS; round += 1) {
    await work(context, volumeId, { model, random });
    const id = await context.snapshot(volumeId);
    cuts.push({ id, image: SnapshotImage.of(model, cuts.at(-1)?.image) });
    if (cuts.length > 3) await backend.snapshots.delete(cuts.shift()?.id ?? '');
    for (const [index, target] of cuts.entries()) {
      const zeros = SnapshotImage.zeros(VOLUME_BYTES);
      const list = await scanAll(filler, (await backend.changes.scan(target.id, null)).source);
      tally.add(assertSound(zeros, target.image, list, 'allocated'));
      for (const base of cuts.slice(0, index)) {
        const delta = await scanAll(filler, (await backend.changes.scan(target.id, base.id)).source);
        tally.add(assertSound(base.image, target.image, delta, 'delta'));
      }
    }
  }
  await harness.release(volumeId);
  for (const { id } of cuts) await backend.snapshots.delete(id);
  await backend.volumes.delete(volumeId);
  return tally;
}

/** What a workload does between two snapshots; the model follows. */
export async function work(
  { harness }: ContractContext,
  volumeId: string,
  { model, random }: { model: Buffer; random: Random },
): Promise<void> {
  for (let count = 0; count < 20; count += 1) {
    const length = random.pick([4096, 4096, 8192, 65536, 131072]);
    const offset = random.below((VOLUME_BYTES - length) / 4096 + 1) * 4096;
    if (random.below(4) === 0) {
      await harness.discard(volumeId, offset, length);
      const { discardGranularity: whole } = harness;
      const begin = Math.ceil(offset / whole) * whole;
      const end = Math.floor((offset + length) / whole) * whole;
      if (begin < end) model.fill(0, begin, end);
    } else {
      const bytes = random.below(2) === 0 ? random.bytes(length) : Buffer.alloc(length, 'words ');
      await harness.write(volumeId, offset, bytes);
      bytes.copy(model, offset);
    }
  }
  assert.ok((await harness.read(volumeId)).equals(model), 'the volume holds what the model holds');
}
