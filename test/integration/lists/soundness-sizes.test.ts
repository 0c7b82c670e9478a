/**
 * Lists of volumes whose size is not that of their base: one that was expanded, and a clone larger than its
 * source. Each list is compared with the bytes of the snapshots' files.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { assertSound } from '../../support/metadata-check.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { SnapshotImage } from '../../support/snapshot-image.js';

const BLOCK = 4096;
const random = seededRandom('soundness of sizes');
const running = runPlugin('soundness-sizes', { pools: { main: 'xfs' } });
const { orchestrator } = running;

/** Scattered blocks in a range of the device or file. */
function scribble(path: string, from: number, to: number, count: number): void {
  const fd = openSync(path, 'r+');
  for (let done = 0; done < count; done += 1) {
    const offset = from + BLOCK * random.below((to - from) / BLOCK);
    writeSync(fd, random.bytes(BLOCK), 0, BLOCK, offset);
  }
  closeSync(fd);
}

/** A snapshot of that size, whose allocated list covers all of its bytes that are not zeros. */
async function take(volume: HeldVolume, name: string, sizeBytes: number) {
  const request = { source_volume_id: volume.id, name };
  const { snapshot } = await running.client.controller.CreateSnapshot(request);
  assert.equal(snapshot.size_bytes, String(sizeBytes));
  const id: string = snapshot.snapshot_id;
  const path = running.poolPath('main', 'snapshots', id);
  const image = SnapshotImage.read(path, sizeBytes);
  const list = await running.client.allocated(id);
  assert.ok(list.ranges.length > 0);
  assertSound(SnapshotImage.zeros(sizeBytes), image, list, `allocated list ${name}`);
  return { id, path, image };
}

test('the lists after an expansion cover the new part, with the capacity of each snapshot', async () => {
  const volume = await orchestrator.create('expanded', { sizeBytes: 4 * MIB });
  const target = await orchestrator.bringUp(volume);
  scribble(target, 0, 4 * MIB, 50);
  const before = await take(volume, 'before an expansion', 4 * MIB);
  await orchestrator.expand(volume, 8 * MIB);
  scribble(target, 0, 8 * MIB, 50);
  scribble(target, 8 * MIB - BLOCK, 8 * MIB, 1);
  const after = await take(volume, 'after an expansion', 8 * MIB);
  const delta = await running.client.delta(before.id, after.id);
  // What the base lacks counts as zeros.
  const base = SnapshotImage.of(Buffer.concat([readFileSync(before.path)], 8 * MIB));
  assertSound(base, after.image, delta, 'delta over an expansion');
  await orchestrator.takeDown(volume);
});

test('the lists of a clone larger than its source are those of its own bytes, inherited ones included', async () => {
  const source = await orchestrator.create('source', { sizeBytes: 8 * MIB });
  scribble(await orchestrator.bringUp(source), 0, 8 * MIB, 100);
  const spec = { volumeId: source.id, sizeBytes: 16 * MIB };
  const clone = await orchestrator.create('clone', spec);
  const inherited = await take(clone, 'of a clone', 16 * MIB);
  scribble(running.poolPath('main', 'volumes', clone.id), 0, 16 * MIB, 60);
  const later = await take(clone, 'of a clone, later', 16 * MIB);
  const delta = await running.client.delta(inherited.id, later.id);
  assertSound(inherited.image, later.image, delta, 'delta of a clone');
  await orchestrator.takeDown(source);
});
