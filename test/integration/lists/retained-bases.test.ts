/** Deltas whose base was deleted, as a client sees them: over a pool in memory that retains bases. */
import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, test } from 'node:test';
import type { AnyStreamHandler, MessageWriter } from '../../../src/base/csi/service.js';
import type { SnapshotRecord, VolumeRecord } from '../../../src/driver/catalogue/records.js';
import { createSnapshotMetadataService } from '../../../src/driver/metadata/snapshot-metadata.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import { ScanThreads } from '../../../src/driver/native/scan-threads.js';
import { callContext } from '../../support/call-context.js';
import type { Range } from '../../support/csi-client.js';
import { received } from '../../support/received-request.js';
import { refused } from '../../support/refusal.js';
import { patientTurn } from '../../support/turn.js';
import { decodeFrames } from '../../support/wire.js';
import { type Managers, openManagers } from '../../unit/volumes/manager-fixture.js';

const BLOCK = 4096;
const filler = new NativePool(1);
const scanThreads = new ScanThreads(filler, 1);
let managers: Managers;
let volume: VolumeRecord;

beforeEach(async () => {
  managers = await openManagers({ perVolume: 1 });
  volume = await managers.volume();
});
afterEach(() => managers.close());
after(() => filler.close());

const write = (block: number, of = volume): void =>
  managers.backend.write(of.volumeId, block * BLOCK, Buffer.alloc(BLOCK, block + 1));

async function take(name: string, of = volume): Promise<SnapshotRecord> {
  return managers.snapshots.create({ name, sourceVolumeId: of.volumeId, parameters: {} });
}

async function call(
  rpc: 'GetMetadataAllocated' | 'GetMetadataDelta',
  request: Record<string, string>,
  send: MessageWriter['send'] = async () => undefined,
): Promise<Range[]> {
  const { catalogue, locks, registry } = managers.deps;
  const backendOf = (pool: string) => registry.owning(pool);
  const service = createSnapshotMetadataService({ catalogue, locks, scanThreads, backendOf });
  const ranges: Range[] = [];
  const handler: AnyStreamHandler | undefined = service.streams[rpc];
  assert.ok(handler !== undefined);
  const context = { ...callContext(), ...patientTurn() };
  await handler(received(rpc, request) as never, context, {
    send: async (chunk) => {
      ranges.push(...decodeFrames(chunk).flatMap((message) => message.ranges));
      await send(chunk);
    },
    forward: () => Promise.reject(new Error('a scan sends chunks')),
  });
  return ranges;
}

const delta = (base: SnapshotRecord, target: SnapshotRecord, send?: MessageWriter['send']): Promise<Range[]> => {
  const ids = { base_snapshot_id: base.snapshotId, target_snapshot_id: target.snapshotId };
  return call('GetMetadataDelta', ids, send);
};

const block = (index: number): Range => ({ offset: BigInt(index * BLOCK), size: BigInt(BLOCK) });

test('SM26: a delta from a deleted snapshot is available while it is retained, by the rules of every delta', async () => {
  const earlier = await take('earlier');
  write(1);
  write(2);
  const base = await take('base');
  write(2);
  write(5);
  managers.backend.discard(volume.volumeId, BLOCK, BLOCK);
  const target = await take('target');
  await managers.snapshots.delete(base.snapshotId);
  write(2);
  assert.deepEqual(await delta(base, target), [{ ...block(1), size: 2n * 4096n }, block(5)]);
  await refused(delta(base, earlier), 'INVALID_ARGUMENT', /not taken before/);
  const other = await take('other', await managers.volume());
  await refused(delta(base, other), 'INVALID_ARGUMENT', /of volume/);
});

test('SM26: every RPC but GetMetadataDelta treats a retained base as deleted', async () => {
  const base = await take('base');
  const target = await take('target');
  await managers.snapshots.delete(target.snapshotId);
  const message = /does not exist.*: it was deleted, and is retained as the base of deltas only/;
  await refused(delta(base, target), 'NOT_FOUND', message);
  const request = { snapshot_id: target.snapshotId };
  await refused(call('GetMetadataAllocated', request), 'NOT_FOUND', message);
  const never = { snapshotId: target.snapshotId.replace(/.$/, 'x') } as SnapshotRecord;
  await refused(delta(base, never), 'NOT_FOUND', /does not exist on this node$/);
  assert.equal(await managers.deps.catalogue.snapshotById(target.snapshotId), null);
  assert.equal((await take('target')).state, 'ready', 'its name is free');
});

test('SM26: an invalidated base is NOT_FOUND with the reason', async () => {
  const [base, newer, target] = [await take('base'), await take('newer'), await take('target')];
  await managers.snapshots.delete(base.snapshotId);
  await managers.snapshots.delete(newer.snapshotId);
  const said = /was deleted, .*because .*BLOCKDELTA_RETAINED_BASES_COUNT.*; make a full backup/;
  await refused(delta(base, target), 'NOT_FOUND', said);
  assert.deepEqual(await delta(newer, target), []);
  managers.backend.storage.invalidatedBases.set(newer.snapshotId, 'the pool was repaired');
  // At once, and not only when the catalogue has learned of it.
  await refused(delta(newer, target), 'NOT_FOUND', /because the pool was repaired/);
  await managers.deps.retainedBases.review(managers.backend);
  await refused(delta(newer, target), 'NOT_FOUND', /because the pool was repaired/);
});

test('a base is not dropped while a stream reads it, and deleting it again does not conflict with one', async () => {
  const [base, newer] = [await take('base'), await take('newer')];
  write(3);
  const target = await take('target');
  await managers.snapshots.delete(base.snapshotId);
  const ranges = await delta(base, target, async () => {
    await managers.snapshots.delete(base.snapshotId);
    await managers.snapshots.delete(newer.snapshotId);
    assert.ok(managers.backend.storage.bases.has(base.snapshotId));
  });
  assert.deepEqual(ranges, [block(3)]);
  await managers.deps.retainedBases.review(managers.backend);
  assert.ok(!managers.backend.storage.bases.has(base.snapshotId));
});
