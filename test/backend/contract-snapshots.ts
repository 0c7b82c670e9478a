/** The part of the backend contract about taking, restoring and removing snapshots. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ContractContext, newSnapshot, newVolume, SIZE, VOLUME_BYTES } from './harness.js';

/** What a snapshot holds, by restoring it. */
async function contentOf(context: ContractContext, snapshotId: string): Promise<Buffer> {
  const { backend, harness } = context;
  const volumeId = newVolume();
  await backend.volumes.create(volumeId, SIZE, { snapshotId });
  const content = Buffer.from(await harness.read(volumeId));
  await harness.release(volumeId);
  await backend.volumes.delete(volumeId);
  return content;
}

export function describeSnapshots(context: ContractContext): void {
  test('a snapshot has the content of its moment, unsynced writes included', async () => {
    const { backend, harness } = context;
    const volumeId = newVolume();
    const [first, second] = [newSnapshot(), newSnapshot()];
    const content = Buffer.alloc(VOLUME_BYTES);
    const write = async (offset: number, length: number, value: number): Promise<void> => {
      content.fill(value, offset, offset + length);
      await harness.write(volumeId, offset, Buffer.alloc(length, value));
    };
    await backend.volumes.create(volumeId, SIZE);
    await write(0, 1 << 20, 1);
    await write(3 << 20, 65536, 2);
    const cut = await backend.snapshots.create([{ volumeId, snapshotId: first }]);
    const atFirst = Buffer.from(content);
    await write(4096, 4096, 3);
    await harness.discard(volumeId, 65536, 65536);
    content.fill(0, 65536, 131072);
    const later = await backend.snapshots.create([{ volumeId, snapshotId: second }]);
    await write(0, 4096, 4);
    assert.ok((await contentOf(context, first)).equals(atFirst));
    content.fill(1, 0, 4096);
    assert.ok((await contentOf(context, second)).equals(content));
    assert.deepEqual(cut.sizesBytes, [SIZE]);
    assert.ok(later.creationTimeNs > cut.creationTimeNs);
    assert.ok(Math.abs(Number(later.creationTimeNs / 1_000_000n) - Date.now()) < 60_000);
  });

  test('a snapshot outlives its volume', async () => {
    const { backend, harness } = context;
    const volumeId = await context.volume();
    await harness.write(volumeId, 4096, Buffer.alloc(4096, 5));
    const snapshotId = await context.snapshot(volumeId);
    await harness.release(volumeId);
    await backend.volumes.delete(volumeId);
    assert.equal((await contentOf(context, snapshotId))[4096], 5);
  });

  test('taking a snapshot of a volume that does not exist fails and leaves nothing behind', async () => {
    const snapshotId = newSnapshot();
    await assert.rejects(context.backend.snapshots.create([{ volumeId: newVolume(), snapshotId }]));
    assert.ok(!(await context.backend.list()).snapshots.some(({ id }) => id === snapshotId));
    assert.deepEqual((await context.harness.reopen()).swept, []);
  });

  test('deleting a snapshot twice, or one that never existed, succeeds', async () => {
    const { backend } = context;
    const volumeId = newVolume();
    const snapshotId = newSnapshot();
    await backend.snapshots.delete(snapshotId);
    await backend.volumes.create(volumeId, SIZE);
    await backend.snapshots.create([{ volumeId, snapshotId }]);
    await backend.snapshots.delete(snapshotId);
    await backend.snapshots.delete(snapshotId);
    assert.ok(!(await backend.list()).snapshots.some(({ id }) => id === snapshotId));
  });

  test('deleting an incomplete snapshot removes what exists of it', async () => {
    const { backend, harness } = context;
    const volumeId = await context.volume();
    const snapshotId = newSnapshot();
    const [left = ''] = await harness.leaveTemporary([{ of: 'snapshot', id: snapshotId }]);
    await backend.volumes.thaw(volumeId);
    await backend.snapshots.delete(snapshotId);
    if (harness.attaches) assert.ok(!(await harness.reopen()).swept.includes(left));
    await backend.snapshots.create([{ volumeId, snapshotId }]);
    await backend.snapshots.delete(snapshotId);
    await backend.volumes.delete(volumeId);
    await harness.reopen();
  });

  test('a restored volume is an independent copy, with zeros beyond the content of the snapshot', async () => {
    const { backend, harness } = context;
    const [volumeId, larger] = [await context.volume(), newVolume()];
    await harness.write(volumeId, VOLUME_BYTES - 4096, Buffer.alloc(4096, 9));
    const snapshotId = await context.snapshot(volumeId);
    await backend.volumes.create(larger, 2n * SIZE, { snapshotId });
    await backend.volumes.create(larger, 2n * SIZE, { snapshotId });
    const content = await harness.read(larger);
    assert.equal(content.length, 2 * VOLUME_BYTES);
    assert.equal(content[VOLUME_BYTES - 1], 9);
    assert.ok(content.subarray(VOLUME_BYTES).equals(Buffer.alloc(VOLUME_BYTES)));
    await harness.write(larger, VOLUME_BYTES - 4096, Buffer.alloc(4096, 8));
    assert.equal((await contentOf(context, snapshotId))[VOLUME_BYTES - 1], 9);
    assert.equal((await harness.read(volumeId))[VOLUME_BYTES - 1], 9);
  });

  test('restoring a snapshot that does not exist fails and leaves nothing behind', async () => {
    const volumeId = newVolume();
    await assert.rejects(context.backend.volumes.create(volumeId, SIZE, { snapshotId: newSnapshot() }));
    assert.ok(!(await context.backend.list()).volumes.some(({ id }) => id === volumeId));
    assert.deepEqual((await context.harness.reopen()).swept, []);
  });
}
