/**
 * What every backend must do (src/driver/backends/backend.ts), as one suite that each of them runs. A
 * harness says how to write to a volume and read it, which is all that differs between them. What a test makes is
 * removed after it.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { describeAttachments } from './contract-attachments.js';
import { describeCopies } from './contract-copies.js';
import { describeReplicas } from './contract-replicas.js';
import { describeRetainedBases } from './contract-retained-bases.js';
import { describeScans } from './contract-scans.js';
import { describeSnapshots } from './contract-snapshots.js';
import {
  type BackendHarness,
  type ContractContext,
  newSnapshot,
  newVolume,
  SIZE,
  started,
  VOLUME_BYTES,
} from './harness.js';

export function describeBackend(
  label: string,
  make: () => Promise<BackendHarness>,
  options: { skip: string | false; attaches: boolean; keepsBases: boolean; keepsReplicas?: boolean },
): void {
  describe(`the backend contract on ${label}`, { skip: options.skip }, () => {
    let harness: BackendHarness | undefined;
    let uuid = '';
    const context: ContractContext = {
      get harness() {
        assert.ok(harness !== undefined);
        return harness;
      },
      get backend() {
        return this.harness.backend;
      },
      get uuid() {
        return uuid;
      },
      async volume(sizeBytes = SIZE) {
        const volumeId = newVolume();
        await this.backend.volumes.create(volumeId, sizeBytes);
        return volumeId;
      },
      async snapshot(volumeId) {
        const snapshotId = newSnapshot();
        await this.backend.snapshots.create([{ volumeId, snapshotId }]);
        return snapshotId;
      },
    };
    before(async () => {
      harness = await make();
      ({ uuid } = await started(harness.backend));
    });
    afterEach(async () => {
      const { backend } = context;
      const { volumes, snapshots } = await backend.list();
      for (const { id } of volumes) {
        await harness?.release(id);
        await backend.volumes.delete(id);
      }
      for (const { id } of snapshots) await backend.snapshots.delete(id);
      for (const { snapshotId } of backend.bases.all().usable) {
        await backend.bases.drop(snapshotId);
      }
    });
    after(() => harness?.dispose());
    describeVolumes(context);
    describePool(context);
    describeSnapshots(context);
    describeCopies(context);
    describeScans(context);
    if (options.keepsBases) describeRetainedBases(context);
    else describeNoRetainedBases(context);
    if (options.attaches) describeAttachments(context);
    if (options.keepsReplicas) describeReplicas(context);
  });
}

function describeNoRetainedBases(context: ContractContext): void {
  test('a backend that retains no bases leaves none when a snapshot is deleted', async () => {
    const { backend } = context;
    const volumeId = await context.volume();
    const snapshotId = await context.snapshot(volumeId);
    const retained = await backend.bases.retain(snapshotId, null);
    assert.ok(retained !== null && 'unretained' in retained, 'it says why');
    await backend.snapshots.delete(snapshotId);
    assert.deepEqual(backend.bases.all(), { usable: [], invalidated: [] });
    await backend.bases.drop(snapshotId);
  });
}

function describeVolumes(context: ContractContext): void {
  test('a new volume reads as zeros, and repeated creations make it once', async () => {
    const { backend, harness } = context;
    const volumeId = await context.volume();
    await harness.write(volumeId, 8192, Buffer.alloc(4096, 7));
    await backend.volumes.create(volumeId, SIZE);
    const content = await harness.read(volumeId);
    assert.equal(content.length, VOLUME_BYTES);
    assert.ok(content.subarray(8192, 12288).equals(Buffer.alloc(4096, 7)), 'it was not made anew');
    assert.ok(content.subarray(12288).equals(Buffer.alloc(VOLUME_BYTES - 12288)));
  });

  test('creating a volume that exists with another size is refused', async () => {
    const volumeId = await context.volume();
    await assert.rejects(context.backend.volumes.create(volumeId, 2n * SIZE));
  });

  test('deleting a volume twice, or one that never existed, succeeds', async () => {
    await context.backend.volumes.delete(newVolume());
    const volumeId = await context.volume();
    await context.backend.volumes.delete(volumeId);
    await context.backend.volumes.delete(volumeId);
    assert.ok(!(await context.backend.list()).volumes.some(({ id }) => id === volumeId));
  });

  test('the initialized mark of a volume is permanent, and is removed with the volume', async () => {
    const { backend, harness } = context;
    const [volumeId, other] = [await context.volume(), await context.volume()];
    const before = await backend.list();
    assert.equal(await backend.marks.has(volumeId), false);
    await backend.marks.set([volumeId]);
    await backend.marks.set([volumeId, volumeId]);
    await backend.snapshots.delete(await context.snapshot(volumeId));
    await backend.volumes.create(volumeId, SIZE);
    const { backend: next, swept } = await harness.reopen();
    assert.deepEqual(swept, []);
    for (const each of [backend, next]) {
      assert.deepEqual(await each.list(), before);
      assert.ok((await each.marks.sweep()).has(volumeId));
      assert.deepEqual([await each.marks.has(volumeId), await each.marks.has(other)], [true, false]);
    }
    await backend.volumes.delete(volumeId);
    assert.equal(await backend.marks.has(volumeId), false);
  });

  test('the initialized mark of a missing volume is swept, not by a start, and those of existing volumes stay', async () => {
    const { backend, harness } = context;
    const [volumeId, gone] = [await context.volume(), newVolume()];
    await backend.marks.set([volumeId]);
    // As a deletion that was killed half way leaves it.
    await backend.marks.set([gone]);
    assert.deepEqual((await harness.reopen()).swept, []);
    assert.equal(await backend.marks.has(gone), true);
    assert.deepEqual(await backend.marks.sweep(), new Set([volumeId]));
    assert.deepEqual([await backend.marks.has(volumeId), await backend.marks.has(gone)], [true, false]);
  });
}

function describePool(context: ContractContext): void {
  test('the identity of a pool stays the same after a restart', async () => {
    const { uuid, harness } = context;
    assert.ok(uuid.length > 0);
    for (let count = 0; count < 2; count += 1) assert.equal((await harness.reopen()).uuid, uuid);
  });

  test('starting and checking a running pool changes nothing', async () => {
    const volumeId = await context.volume();
    await context.harness.write(volumeId, 0, Buffer.alloc(4096, 3));
    await context.backend.start();
    await context.backend.check();
    assert.equal((await context.harness.read(volumeId))[0], 3);
  });

  test('the statistics agree with the capacity, and count the blocks and promises of volumes', async () => {
    const { backend } = context;
    const before = await backend.statistics();
    const volumeId = await context.volume(8n << 20n);
    const after = await backend.statistics();
    assert.equal(after.space?.capacity.totalBytes, (await backend.capacity()).totalBytes);
    const used = after.space?.volumes.get(volumeId) ?? -1n;
    assert.ok(used >= 0n && used <= 8n << 20n);
    const promised = (after.space?.promisedBytes ?? 0n) - (before.space?.promisedBytes ?? 0n);
    assert.ok(promised > 0n && promised <= 8n << 20n);
    assert.equal(backend.kind === 'thin', after.thin !== null);
  });

  test('the capacity never exceeds the free space, and falls with every volume', async () => {
    const { backend, harness } = context;
    const empty = await backend.capacity();
    assert.ok(empty.availableBytes <= (await harness.reallyFree()));
    assert.ok(empty.availableBytes <= empty.totalBytes);
    assert.equal(empty.availableBytes % empty.granularityBytes, 0n);
    const large = 256n << 20n;
    const volumeId = await context.volume(large);
    const promised = await backend.capacity();
    // What earlier tests deleted may come back meanwhile, since file systems free space later.
    assert.ok(promised.availableBytes <= empty.availableBytes - large + 8n * SIZE);
    await backend.volumes.delete(volumeId);
    const again = await backend.capacity();
    assert.ok(again.availableBytes > promised.availableBytes);
  });

  test('the list has every volume and snapshot with its size, and names foreign objects', async () => {
    const { backend, harness } = context;
    const before = await backend.list();
    const volumeId = await context.volume(2n * SIZE);
    const snapshotId = await context.snapshot(volumeId);
    const held = await backend.list();
    assert.deepEqual(
      held.volumes.filter(({ id }) => !before.volumes.some((old) => old.id === id)),
      [{ id: volumeId, sizeBytes: 2n * SIZE }],
    );
    assert.deepEqual(
      held.snapshots.filter(({ id }) => !before.snapshots.some((old) => old.id === id)),
      [{ id: snapshotId, sizeBytes: 2n * SIZE }],
    );
    await harness.leaveForeign();
    const all = await backend.list();
    assert.equal(all.unknown.length, before.unknown.length + 1);
    const names = await backend.list('volumes');
    assert.deepEqual([names.volumes, names.unknown], [all.volumes, all.unknown]);
    assert.deepEqual(
      names.snapshots.map(({ id }) => id),
      all.snapshots.map(({ id }) => id),
    );
  });

  test('leftovers of a killed run are swept and never listed, and nothing else is swept', async () => {
    const { backend, harness } = context;
    await context.snapshot(await context.volume());
    const left = await harness.leaveTemporary([
      { of: 'volume', id: newVolume() },
      { of: 'snapshot', id: newSnapshot() },
    ]);
    const before = await backend.list();
    assert.deepEqual((await harness.reopen()).swept.sort(), left.sort());
    assert.deepEqual((await harness.reopen()).swept, []);
    assert.deepEqual(await backend.list(), before);
  });
}
