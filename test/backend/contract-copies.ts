/** The part of the backend contract about clones, expansion, group snapshots, and volume condition. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { refused } from '../support/refusal.js';
import { type ContractContext, newSnapshot, newVolume, SIZE, VOLUME_BYTES } from './harness.js';

/** A volume whose block at 4096 holds the value, and which is open for writing. */
async function writtenVolume(context: ContractContext, value: number): Promise<string> {
  const volumeId = await context.volume();
  await context.harness.write(volumeId, 4096, Buffer.alloc(4096, value));
  return volumeId;
}

async function drop(context: ContractContext, ...volumeIds: string[]): Promise<void> {
  for (const id of volumeIds) {
    await context.harness.release(id);
    await context.backend.volumes.delete(id);
  }
}

export function describeCopies(context: ContractContext): void {
  test('a clone has the content of its source at that moment, unsynced writes included, and is independent of it', async () => {
    const { backend, harness } = context;
    const source = await writtenVolume(context, 1);
    const clone = newVolume();
    await backend.volumes.create(clone, 2n * SIZE, { volumeId: source });
    await harness.write(source, 4096, Buffer.alloc(4096, 2));
    await backend.volumes.create(clone, 2n * SIZE, { volumeId: source });
    const content = await harness.read(clone);
    assert.equal(content.length, 2 * VOLUME_BYTES);
    assert.equal(content[4096], 1, 'it was made once, with the content of that moment');
    assert.ok(content.subarray(VOLUME_BYTES).equals(Buffer.alloc(VOLUME_BYTES)));
    await harness.write(clone, 4096, Buffer.alloc(4096, 3));
    assert.equal((await harness.read(source))[4096], 2);
  });

  test('a clone can be written to and snapshotted, and outlives its source', async () => {
    const { backend, harness } = context;
    const source = await writtenVolume(context, 5);
    const clone = newVolume();
    await backend.volumes.create(clone, SIZE, { volumeId: source });
    await drop(context, source);
    await context.snapshot(clone);
    assert.equal((await harness.read(clone))[4096], 5);
  });

  test('a copy smaller than its source is refused, and leaves nothing behind', async () => {
    const { backend } = context;
    const source = await writtenVolume(context, 1);
    await backend.volumes.expand(source, 2n * SIZE);
    const snapshotId = await context.snapshot(source);
    const copy = newVolume();
    await assert.rejects(backend.volumes.create(copy, SIZE, { volumeId: source }));
    await assert.rejects(backend.volumes.create(copy, SIZE, { snapshotId }));
    assert.ok(!(await backend.list()).volumes.some(({ id }) => id === copy));
    assert.deepEqual((await context.harness.reopen()).swept, []);
  });

  test('cloning a volume that does not exist fails and leaves nothing behind, and its source can be thawed', async () => {
    const { backend } = context;
    const clone = newVolume();
    const source = newVolume();
    await assert.rejects(backend.volumes.create(clone, SIZE, { volumeId: source }));
    await backend.volumes.thaw(source);
    await backend.volumes.delete(clone);
    assert.ok(!(await backend.list()).volumes.some(({ id }) => id === clone));
    assert.deepEqual((await context.harness.reopen()).swept, []);
  });

  test('an expanded volume keeps its content and reads as zeros beyond it, and expansion can be repeated', async () => {
    const { backend, harness } = context;
    const volumeId = await writtenVolume(context, 6);
    assert.equal(await backend.volumes.expand(volumeId, 2n * SIZE), 2n * SIZE);
    assert.equal(await backend.volumes.expand(volumeId, 2n * SIZE), 2n * SIZE);
    assert.equal(await backend.volumes.expand(volumeId, SIZE), 2n * SIZE, 'never smaller');
    const content = await harness.read(volumeId);
    assert.equal(content.length, 2 * VOLUME_BYTES);
    assert.equal(content[4096], 6);
    assert.ok(content.subarray(VOLUME_BYTES).equals(Buffer.alloc(VOLUME_BYTES)));
    await harness.write(volumeId, VOLUME_BYTES + 4096, Buffer.alloc(4096, 7));
    assert.equal((await harness.read(volumeId))[VOLUME_BYTES + 4096], 7);
  });

  test('a snapshot keeps the size of its volume, and one taken after an expansion has the new size', async () => {
    const { backend } = context;
    const volumeId = await writtenVolume(context, 8);
    const [before, after] = [newSnapshot(), newSnapshot()];
    const first = await backend.snapshots.create([{ volumeId, snapshotId: before }]);
    await backend.volumes.expand(volumeId, 2n * SIZE);
    const second = await backend.snapshots.create([{ volumeId, snapshotId: after }]);
    assert.deepEqual([first.sizesBytes, second.sizesBytes], [[SIZE], [2n * SIZE]]);
  });

  test('expanding a volume that does not exist fails', async () => {
    await assert.rejects(context.backend.volumes.expand(newVolume(), SIZE));
  });

  test('a group snapshot has the content and size of each volume', async () => {
    const { backend, harness } = context;
    const volumes = [await writtenVolume(context, 1), await writtenVolume(context, 2)];
    const [, second = ''] = volumes;
    await backend.volumes.expand(second, 2n * SIZE);
    const members = volumes.map((volumeId) => ({ volumeId, snapshotId: newSnapshot() }));
    const cut = await backend.snapshots.create(members);
    assert.deepEqual(cut.sizesBytes, [SIZE, 2n * SIZE]);
    for (const id of volumes) await harness.write(id, 4096, Buffer.alloc(4096, 9));
    for (const [index, { snapshotId }] of members.entries()) {
      const restored = newVolume();
      await backend.volumes.create(restored, 2n * SIZE, { snapshotId });
      assert.equal((await harness.read(restored))[4096], index + 1);
      await drop(context, restored);
    }
    for (const { snapshotId } of members) await backend.snapshots.delete(snapshotId);
  });

  test('a group snapshot with a missing volume leaves no snapshot of the others', async () => {
    const { backend } = context;
    const volumeId = await writtenVolume(context, 1);
    const member = { volumeId, snapshotId: newSnapshot() };
    const lost = { volumeId: newVolume(), snapshotId: newSnapshot() };
    for (const members of [
      [member, lost],
      [lost, member],
    ]) {
      await assert.rejects(backend.snapshots.create(members));
      const held = (await backend.list()).snapshots.map(({ id }) => id);
      assert.ok(!held.includes(member.snapshotId) && !held.includes(lost.snapshotId));
      assert.deepEqual((await context.harness.reopen()).swept, []);
    }
    await context.harness.write(volumeId, 0, Buffer.alloc(4096, 1));
  });

  test('missing or incomplete volumes and snapshots are distinguished from complete ones', async () => {
    const { backend } = context;
    const volumeId = await writtenVolume(context, 1);
    const snapshotId = await context.snapshot(volumeId);
    await backend.volumes.check(volumeId, SIZE);
    await backend.snapshots.check(snapshotId, SIZE);
    await backend.volumes.expand(volumeId, 2n * SIZE);
    // It may have grown since its size was recorded.
    await backend.volumes.check(volumeId, SIZE);
    const refusals = [
      () => backend.volumes.check(volumeId, 4n * SIZE),
      () => backend.volumes.check(newVolume(), SIZE),
      () => backend.snapshots.check(snapshotId, 2n * SIZE),
      () => backend.snapshots.check(snapshotId, SIZE / 2n),
      () => backend.snapshots.check(newSnapshot(), SIZE),
    ];
    for (const refusal of refusals) await refused(refusal(), 'FAILED_PRECONDITION');
  });

  test('the condition of a volume reports its storage, and is null once that is removed', async () => {
    const { backend } = context;
    const volumeId = await writtenVolume(context, 1);
    await backend.volumes.expand(volumeId, 2n * SIZE);
    const { storedBytes, runsOnRemoved } = await backend.volumes.condition(volumeId);
    assert.deepEqual([storedBytes, runsOnRemoved], [2n * SIZE, false]);
    await drop(context, volumeId);
    const gone = await backend.volumes.condition(volumeId);
    assert.deepEqual(gone, { storedBytes: null, runsOnRemoved: false });
  });
}
