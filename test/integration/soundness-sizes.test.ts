/**
 * Lists of volumes whose size is not that of their base: one that was expanded, and a clone larger than its
 * source. Each list is compared with the bytes of the snapshots' files.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability } from '../support/csi-client.js';
import { assertSound } from '../support/metadata-check.js';
import { seededRandom } from '../support/random.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import {
  readSnapshot,
  snapshotPath,
  type TestSnapshot,
  TestVolume,
} from '../support/test-volume.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const random = seededRandom('soundness of sizes');
const running = runPlugin('soundness-sizes', { pools: { main: 'xfs' } });

/** Scattered blocks in a range of the device or file. */
function scribble(path: string, from: number, to: number, count: number): void {
  const fd = openSync(path, 'r+');
  for (let done = 0; done < count; done += 1) {
    const offset = from + BLOCK * random.below((to - from) / BLOCK);
    writeSync(fd, random.bytes(BLOCK), 0, BLOCK, offset);
  }
  closeSync(fd);
}

const image = (snapshot: TestSnapshot): SnapshotImage =>
  readSnapshot(running.poolPath('main'), snapshot);

/** The snapshot's allocated list covers all of its bytes that are not zeros. */
async function assertAllocatedSound(snapshot: TestSnapshot, label: string): Promise<void> {
  const list = await running.client.allocated(snapshot.id);
  assert.equal(list.capacity, BigInt(snapshot.sizeBytes));
  assert.ok(list.ranges.length > 0);
  assertSound(SnapshotImage.zeros(snapshot.sizeBytes), image(snapshot), list, label);
}

test('after an expansion the lists cover the new part, with the capacity of each snapshot', async () => {
  const { client, workspace } = running;
  const volume = await TestVolume.create(client, workspace, { sizeBytes: 4 * MIB });
  await volume.publish();
  scribble(volume.targetPath, 0, 4 * MIB, 50);
  const before = await volume.snapshot();
  const wanted = { volume_id: volume.id, capacity_range: { required_bytes: String(8 * MIB) } };
  await client.controller.ControllerExpandVolume(wanted);
  scribble(volume.targetPath, 0, 8 * MIB, 50);
  scribble(volume.targetPath, 8 * MIB - BLOCK, 8 * MIB, 1);
  const after = await volume.snapshot();
  assert.deepEqual([before.sizeBytes, after.sizeBytes], [4 * MIB, 8 * MIB]);
  await assertAllocatedSound(before, 'allocated list before an expansion');
  await assertAllocatedSound(after, 'allocated list after an expansion');
  const delta = await client.delta(before.id, after.id);
  assert.equal(delta.capacity, BigInt(8 * MIB));
  const file = readFileSync(snapshotPath(running.poolPath('main'), before.id));
  const base = SnapshotImage.of(Buffer.concat([file, Buffer.alloc(4 * MIB)]));
  assertSound(base, image(after), delta, 'delta over an expansion');
  await volume.unpublish();
});

test('the lists of a clone larger than its source are those of its own bytes, inherited ones included', async () => {
  const { client, workspace } = running;
  const source = await TestVolume.create(client, workspace, { sizeBytes: 8 * MIB });
  await source.publish();
  scribble(source.targetPath, 0, 8 * MIB, 100);
  const answer = await client.controller.CreateVolume({
    name: 'clone for lists',
    capacity_range: { required_bytes: String(16 * MIB) },
    volume_capabilities: [blockCapability()],
    volume_content_source: { volume: { volume_id: source.id } },
  });
  const cloneId = answer['volume'].volume_id as string;
  const take = async (name: string): Promise<TestSnapshot> => {
    const request = { source_volume_id: cloneId, name };
    const { snapshot } = await client.controller.CreateSnapshot(request);
    return { id: snapshot.snapshot_id, sizeBytes: Number(snapshot.size_bytes) };
  };
  const inherited = await take('inherited');
  assert.equal(inherited.sizeBytes, 16 * MIB);
  await assertAllocatedSound(inherited, 'allocated list of a clone');
  scribble(join(running.poolPath('main'), 'volumes', cloneId), 0, 16 * MIB, 60);
  const later = await take('later');
  const delta = await client.delta(inherited.id, later.id);
  assertSound(image(inherited), image(later), delta, 'delta of a clone');
  await source.unpublish();
});
