/** Bringing a snapshot from one node to another, before nodes that answer what the test says: which calls are made, and codes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import type { NodeRpcs, PullStateMessage } from '../../../src/base/csi/node-proto.js';
import { CsiError, type StatusName } from '../../../src/base/errors.js';
import { createLogger } from '../../../src/base/logger.js';
import type { NodeConnection } from '../../../src/router/node-connection.js';
import { RemoteSources } from '../../../src/router/remote-sources.js';
import { type Answers, answeringNode as node } from '../../support/answering-node.js';
import { eventually } from '../../support/eventually.js';
import { refused } from '../../support/refusal.js';

const snapshotId = newSnapshotId(nodeKey('a'));
const snapshot = { snapshot_id: snapshotId, size_bytes: '4096' };
const piece = { port: 10_900, key: 'k', export_name: 'e' };
const state = (status: string, fields: Partial<PullStateMessage> = {}): object => ({
  status,
  done_bytes: '1024',
  total_bytes: '4096',
  bytes_per_second: '10',
  ...fields,
});

function sources(nodes: readonly { node: NodeConnection }[], now = (): number => 0): RemoteSources {
  const logger = createLogger('info', { write: () => undefined });
  return new RemoteSources({
    nodes: () => nodes.map((each) => each.node),
    owning: (key) => nodes.find((each) => each.node.key === key)?.node ?? assert.fail(key),
    logger,
    now,
    roundMs: 3_600_000,
  });
}

const SERVES: Answers = {
  FindSnapshot: () => ({ snapshot }),
  OpenTransfer: () => piece,
  CloseTransfer: () => ({}),
};
const ANY = { pool: '', cloneName: '' };
const soon = (): number => Date.now() + 60_000;

test('each piece is opened at the node of the snapshot and fetched by the other, until the snapshot is there', async () => {
  const offsets: string[] = [];
  const opened: NodeRpcs['OpenTransfer'][0][] = [];
  const owner = node('a', {
    ...SERVES,
    OpenTransfer: (request) => {
      opened.push(request);
      return piece;
    },
  });
  const states = ['0', '1024', '2048', '4096'];
  const reader = node('b', {
    FindSnapshot: ({ snapshot: described }) => ({
      pull:
        offsets.length === 0
          ? null
          : state(offsets.length === 3 ? 'COMPLETE' : 'WAITING', {
              offset: states[offsets.length] ?? '',
              base_snapshot_id: 'base',
            }),
      bases:
        described === null
          ? []
          : [
              { snapshot_id: 'newer', size_bytes: '1' },
              { snapshot_id: 'base', size_bytes: '2' },
            ],
    }),
    PullSnapshot: ({ piece: given, host, asked }) => {
      assert.deepEqual([given?.key, host, asked], ['k', '10.0.0.1', offsets.length === 0]);
      offsets.push('');
      return state(offsets.length === 3 ? 'COMPLETE' : 'WAITING');
    },
  });
  await sources([owner, reader]).bring(reader.node, snapshotId, ANY, soon());
  const wanted = opened.map(({ offset, bases, reader: by }) => [offset, bases.map((base) => base.snapshot_id), by]);
  assert.deepEqual(wanted, [
    ['0', ['newer', 'base'], 'b'],
    ['1024', ['base'], 'b'],
    ['2048', ['base'], 'b'],
  ]);
  assert.equal(owner.asked.at(-1), 'CloseTransfer');
});

test('a complete replica needs nothing of the snapshot, whose node may be away, but ends a transfer that was left', async () => {
  const owner = node('a', { CloseTransfer: () => ({}) });
  const reader = node('b', { FindSnapshot: () => ({ pull: state('COMPLETE') }) });
  await sources([reader]).bring(reader.node, snapshotId, ANY, soon());
  const remote = sources([owner, reader]);
  await remote.bring(reader.node, snapshotId, ANY, soon());
  assert.deepEqual(owner.asked, ['CloseTransfer']);
  assert.equal(await remote.hasReplica(reader.node, snapshotId), true);
  assert.equal(await remote.hasReplica(owner.node, snapshotId), false);
});

test('a call that may not wait says how far the snapshot is, and the pull goes on without it', async () => {
  let finish = (): void => undefined;
  const ended = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let pieces = 0;
  const owner = node('a', SERVES);
  const reader = node('b', {
    FindSnapshot: () => ({ pull: pieces === 0 ? null : state(pieces > 1 ? 'COMPLETE' : 'RUNNING', { offset: '0' }) }),
    PullSnapshot: async () => {
      if (pieces > 0) await ended;
      pieces += 1;
      return state(pieces > 1 ? 'COMPLETE' : 'RUNNING');
    },
  });
  const remote = sources([owner, reader]);
  const first = remote.bring(reader.node, snapshotId, ANY, Date.now() + 1);
  await refused(first, 'ABORTED', /being copied to node 'b'/);
  await eventually('a piece was fetched', () => pieces === 1);
  const second = remote.bring(reader.node, snapshotId, ANY, Date.now() + 1);
  await refused(second, 'ABORTED', /1024 of 4096 bytes \(25 %\), 10 bytes\/s/);
  finish();
  await remote.bring(reader.node, snapshotId, ANY, soon());
  assert.equal(pieces, 2);
});

test('the codes are those that an orchestrator acts on', async () => {
  const none = { FindSnapshot: () => ({}) };
  const pulls = (answer: () => object): Answers => ({ ...none, PullSnapshot: answer });
  const refusing = (error: CsiError) => (): object => {
    throw error;
  };
  const cases: [Answers, Answers, StatusName, RegExp][] = [
    [{}, none, 'FAILED_PRECONDITION', /node 'a' has a version/],
    [SERVES, {}, 'FAILED_PRECONDITION', /node 'b' has a version/],
    [none, none, 'NOT_FOUND', /does not exist on its node 'a'/],
    [{ ...SERVES, OpenTransfer: refusing(CsiError.aborted('no port')) }, none, 'ABORTED', /no port/],
    [{ FindSnapshot: refusing(CsiError.unavailable('away')) }, none, 'UNAVAILABLE', /away/],
    [SERVES, pulls(refusing(CsiError.resourceExhausted('no room'))), 'RESOURCE_EXHAUSTED', /no room/],
    [SERVES, pulls(() => state('WAITING', { failure: 'the cable' })), 'UNAVAILABLE', /the cable; it is tried again/],
  ];
  for (const [from, to, code, message] of cases) {
    const [owner, reader] = [node('a', from), node('b', to)];
    await refused(sources([owner, reader]).bring(reader.node, snapshotId, ANY, soon()), code, message);
  }
});

test('a round goes on with what the nodes report, each snapshot once', async () => {
  let pulled = 0;
  let asked: boolean | undefined;
  const owner = node('a', { ...SERVES, ListPulls: () => ({ pulls: [] }) });
  const reader = node('b', {
    ListPulls: () => ({ pulls: [{ snapshot, state: state('WAITING'), pool: 'main', clone_name: 'copy' }] }),
    FindSnapshot: () => ({ pull: state(pulled > 0 ? 'COMPLETE' : 'WAITING', { offset: '0' }) }),
    PullSnapshot: (request) => {
      pulled += 1;
      asked = request.asked;
      assert.deepEqual([request.pool, request.clone_name], ['main', 'copy']);
      return state('COMPLETE');
    },
  });
  const old = node('c', {});
  const remote = sources([owner, reader, old]);
  await Promise.all([remote.round(), remote.round()]);
  await eventually('it was pulled', () => pulled === 1);
  assert.equal(asked, false);
});

test('a pull ends an hour after the last call that asked for it, and the node hears of each call once', async () => {
  let clock = 1;
  const asked: boolean[] = [];
  const owner = node('a', SERVES);
  const reader = node('b', {
    FindSnapshot: () => ({ pull: state('RUNNING', { offset: '0' }) }),
    PullSnapshot: (request) => {
      asked.push(request.asked);
      clock += 1_000_000;
      return state('RUNNING');
    },
  });
  const brought = sources([owner, reader], () => clock).bring(reader.node, snapshotId, ANY, soon());
  await refused(brought, 'ABORTED', /no call has asked for an hour/);
  assert.deepEqual(asked, [true, false, false, false]);
});
