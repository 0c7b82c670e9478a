/** The messages between routers and nodes: what is parsed is what was said, and nothing is guessed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSnapshotId, newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import { type NodeRpc, nodeMethod } from '../../../src/base/csi/node-proto.js';
import { CsiError } from '../../../src/base/errors.js';
import type { DescribedSnapshot } from '../../../src/driver/catalogue/records.js';
import * as messages from '../../../src/driver/replicas/node-messages.js';
import { BLOCK, mountOf } from '../../support/records.js';

const key = nodeKey('a');
const snapshot: DescribedSnapshot = {
  snapshotId: newSnapshotId(key),
  volumeId: newVolumeId(key),
  sizeBytes: 1n << 40n,
  sequence: 7n,
  creationTimeNs: 1_700_000_000_123_456_789n,
  pristine: true,
  fileSystem: 'xfs',
  capabilities: [BLOCK, mountOf('xfs'), mountOf('')],
  catalogueUuid: 'c'.repeat(32),
  poolUuid: 'd'.repeat(32),
};

/** As the other side receives it. */
function over<M extends object>(rpc: NodeRpc, message: M): M {
  const { requestSerialize, requestDeserialize } = nodeMethod(rpc);
  return requestDeserialize(requestSerialize(message)) as M;
}

const transfer = {
  piece: { ranges: 1, dataBytes: 10n, nextOffset: 4096n, remainingBytes: 20n, requestSize: 65_536, writtenBytes: 12n },
  offset: 512n,
  baseId: newSnapshotId(key),
  port: 10_900,
  ticket: { key: 'a'.repeat(64), exportName: 'b'.repeat(36) },
  leaseMs: 600_000,
  stallMs: 60_000,
};
const request = {
  snapshot: messages.snapshotMessage(snapshot),
  pool: 'main',
  host: '10.0.0.1',
  piece: messages.pieceMessage(transfer),
  asked: true,
  wait_ms: 5,
  clone_name: '',
};

const problemOf = (changed: object): string => {
  try {
    messages.parsePull(over('PullSnapshot', { ...request, ...changed }));
    return 'accepted';
  } catch (thrown) {
    const { code, message } = CsiError.from(thrown);
    return `${code} ${message}`;
  }
};

test('a snapshot, a piece and an order arrive as they were sent', () => {
  const { order, waitMs } = messages.parsePull(over('PullSnapshot', request));
  const { piece, ...facts } = transfer;
  const { ranges: _, ...sizes } = piece;
  const { leaseMs: __, ...served } = facts;
  assert.deepEqual(order, {
    snapshot,
    pool: 'main',
    cloneName: null,
    isAsked: true,
    piece: { host: '10.0.0.1', ...served, ...sizes },
  });
  assert.equal(waitMs, 5);
  const initialized = messages.snapshotMessage({ ...snapshot, pristine: false, fileSystem: null });
  const { pristine, fileSystem } = messages.parseSnapshot(initialized, 'snapshot');
  assert.deepEqual([pristine, fileSystem], [false, null]);
  const last = messages.pieceMessage({ ...transfer, baseId: null, piece: { ...piece, nextOffset: null } });
  const parsed = messages.parsePull(over('PullSnapshot', { ...request, piece: last, clone_name: 'copy' }));
  assert.deepEqual([parsed.order.piece.nextOffset, parsed.order.piece.baseId], [null, null]);
  assert.equal(parsed.order.cloneName, 'copy');
});

test('a description that lacks any field, or names no handle, is refused with the field', () => {
  const described = messages.snapshotMessage(snapshot);
  for (const field of Object.keys(described).filter((name) => name !== 'file_system')) {
    const { [field as keyof typeof described]: _, ...rest } = described;
    assert.match(problemOf({ snapshot: rest }), new RegExp(`^3 snapshot\\.${field} `), field);
  }
  for (const [field, value] of [
    ['snapshot_id', '../../etc/passwd'],
    ['volume_id', 'vol'],
    ['size_bytes', '-1'],
    ['content', 'UNSPECIFIED'],
    ['file_system', 'ntfs'],
    ['uses', [{ access_mode: 'ANY' }]],
  ]) {
    assert.match(
      problemOf({ snapshot: { ...described, [String(field)]: value } }),
      new RegExp(`^3 snapshot\\.${field}`),
    );
  }
  assert.match(problemOf({ snapshot: null }), /^3 snapshot is required/);
  assert.match(problemOf({ host: '' }), /^3 host is required/);
});

test('a piece that cannot be right is refused with the field', () => {
  const { piece } = request;
  for (const [field, value] of [
    ['base_snapshot_id', 'x/y'],
    ['offset', '-1'],
    ['next_offset', '512'],
    ['next_offset', String((1n << 40n) + 1n)],
    ['request_size', 4095],
    ['request_size', 1 << 21],
    ['port', 0],
    ['port', 65_536],
    ['key', 'a'.repeat(63)],
    ['export_name', '../x'],
    ['stall_ms', 0],
  ]) {
    assert.match(problemOf({ piece: { ...piece, [String(field)]: value } }), new RegExp(`^3 piece\\.${field} `));
  }
  assert.match(problemOf({ piece: null }), /^3 piece is required/);
});

test('a part that is to be digested begins at a block, and is neither empty nor longer than a node reads for one call', () => {
  const part = { snapshot_id: snapshot.snapshotId, offset: '2097152', length_bytes: String(2 ** 30) };
  const parsed = (changed: object) => messages.parsePart(over('DigestSnapshot', { ...part, ...changed }));
  assert.deepEqual(parsed({}), { snapshotId: snapshot.snapshotId, offset: 2n << 20n, lengthBytes: 1n << 30n });
  for (const [changed, problem] of [
    [{ snapshot_id: '../x' }, /snapshot_id is not the handle/],
    [{ offset: '4096' }, /offset is no multiple of 1 MiB/],
    [{ offset: '-1048576' }, /offset/],
    [{ length_bytes: '0' }, /length_bytes is required/],
    [{ length_bytes: String(2 ** 30 + 1) }, /length_bytes is more than 1 GiB/],
  ] as const) {
    assert.throws(() => parsed(changed), problem);
  }
});

test('a report of a copy has an outcome, a failure its reason, and both the ids that name the copy', () => {
  const report = { snapshot_id: snapshot.snapshotId, promise_id: '1'.repeat(32), outcome: 'KEPT', failure: '' };
  const parsed = (changed: object) => messages.parseReport(over('ReportCopy', { ...report, ...changed }));
  const copy = { snapshotId: snapshot.snapshotId, promiseId: report.promise_id };
  assert.deepEqual(parsed({}), { copy, outcome: { kind: 'kept' } });
  assert.deepEqual(parsed({ outcome: 'ENDED' }), { copy, outcome: { kind: 'ended' } });
  const long = { outcome: 'FAILED', failure: 'no room '.repeat(500) };
  const { outcome } = parsed(long);
  assert.deepEqual(outcome, { kind: 'failed', failure: long.failure.slice(0, 1000) });
  for (const [changed, problem] of [
    [{ outcome: 'UNSPECIFIED' }, /outcome is required/],
    [{ outcome: 'FAILED' }, /failure is required/],
    [{ promise_id: '../x' }, /promise_id is not 32 hexadecimal digits/],
    [{ snapshot_id: 'snap' }, /snapshot_id is not the handle/],
  ] as const) {
    assert.throws(() => parsed(changed), problem);
  }
});
