/** What a router answers operators about copies, before nodes that answer what the test says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import type { CopyMessage, NodeRpcs } from '../../../src/base/csi/node-proto.js';
import type { CallContext } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { createLogger } from '../../../src/base/logger.js';
import { KeptCopies } from '../../../src/router/kept-copies.js';
import { RemoteSources } from '../../../src/router/remote-sources.js';
import { type AnsweringNode, answeringNode } from '../../support/answering-node.js';
import { refused } from '../../support/refusal.js';

const id = newSnapshotId(nodeKey('a'));
const PART = 256 * 2 ** 20;
const context = { deadline: Date.now() + 60_000, signal: new AbortController().signal } as CallContext;

function keptCopies(nodes: readonly AnsweringNode[], { retired = '', away = [] as string[] } = {}) {
  const logger = createLogger('info', { write: () => undefined });
  const all = () => nodes.map(({ node }) => node);
  const owning = (key: string) => all().find((node) => node.key === key) ?? assert.fail(`${key} is retired`);
  const sources = new RemoteSources({ nodes: all, owning, logger, now: () => 0, roundMs: 3_600_000 });
  const deleted: string[] = [];
  const copies = {
    deleteReplicas: async (snapshotId: string) => {
      deleted.push(snapshotId);
      return away;
    },
  };
  const isRetired = (key: string) => key === nodeKey(retired);
  return { kept: new KeptCopies({ nodes: all, owning, isRetired, sources, copies }), deleted };
}

const copy = (snapshotId: string, nodeId: string, state = 'KEPT'): CopyMessage => ({
  snapshot_id: snapshotId,
  promise_id: '1'.repeat(32),
  node_id: nodeId,
  state,
  pool: '',
  volume_id: '',
});

const lists = (...copies: CopyMessage[]) => ({
  ListCopies: ({ kept }: NodeRpcs['ListCopies'][0]) => {
    assert.equal(kept, true);
    return { copies };
  },
});

test('the copies are those that the nodes of the snapshots count on, and nodes that cannot be asked are named', async () => {
  const [other, third] = [newSnapshotId(nodeKey('a')), newSnapshotId(nodeKey('b'))];
  const nodes = [
    answeringNode('a', lists(copy(id, 'b'), copy(other, 'c'))),
    // Of a version that does not know the question, and answers another one.
    answeringNode('b', { ListCopies: () => ({ copies: [copy(third, 'a', 'PENDING')] }) }),
    answeringNode('c', {}, { isConnected: false }),
  ];
  const { kept } = keptCopies(nodes);
  const all = await kept.list({ snapshot_id: '' }, context);
  assert.deepEqual(
    all.copies.map(({ snapshot_id, node_id }) => [snapshot_id, node_id]),
    [
      [id, 'b'],
      [other, 'c'],
    ],
  );
  assert.deepEqual(all.unreachable, ['c']);
  const one = await kept.list({ snapshot_id: other }, context);
  assert.deepEqual([one.copies.length, one.copies[0]?.node_id, one.unreachable], [1, 'c', []]);
  await refused(kept.list({ snapshot_id: 'x' }, context), 'INVALID_ARGUMENT', /snapshot_id/);
});

const digests = (sha256: string, size: number, offset = 0) => ({
  DigestSnapshot: (request: NodeRpcs['DigestSnapshot'][0]) => {
    assert.deepEqual({ ...request }, { snapshot_id: id, offset: String(offset), length_bytes: String(PART) });
    return { sha256: Buffer.from(sha256), size_bytes: String(size) };
  },
});

const fails = (error: CsiError) => ({ DigestSnapshot: () => Promise.reject(error) });

test('a copy is compared part by part, and differs by its content or its size; what its node does not have is lost', async () => {
  const size = PART + 512;
  const compare = async (own: object, copied: object, offset = '0') => {
    const { kept } = keptCopies([answeringNode('a', own), answeringNode('b', copied)]);
    const { result, why, end } = await kept.compare({ snapshot_id: id, node_id: 'b', offset }, context);
    return [result, why, Number(end)];
  };
  assert.deepEqual(await compare(digests('x', size), digests('x', size)), ['EQUAL', '', PART]);
  const last = digests('x', size, PART);
  assert.deepEqual(await compare(last, last, String(PART)), ['EQUAL', '', size]);
  assert.deepEqual(await compare(digests('x', size), digests('y', size)), ['DIFFERENT', '', PART]);
  assert.deepEqual(await compare(digests('x', size), digests('x', size + 1)), ['DIFFERENT', '', PART]);
  const none = fails(CsiError.notFound('this node has none'));
  assert.deepEqual(await compare(digests('x', size), none), ['LOST', 'this node has none', PART]);
  await refused(compare(none, digests('x', size)), 'NOT_FOUND', /this node has none/);
  await refused(compare(digests('x', size), fails(CsiError.unavailable('away'))), 'UNAVAILABLE', /away/);
  await refused(compare(digests('x', size), {}), 'FAILED_PRECONDITION', /has a version/);
  const { kept } = keptCopies([answeringNode('a', {})]);
  await refused(kept.compare({ snapshot_id: id, node_id: 'b', offset: '0' }, context), 'UNAVAILABLE', /'b'/);
});

test('copies are removed only when the node of the snapshot has lost it or is retired, and nodes that may still have one are named', async () => {
  const knows = (own: string) => answeringNode('a', { FindCopy: () => ({ own }) });
  for (const own of ['LOST', 'ABSENT']) {
    const { kept, deleted } = keptCopies([knows(own)], { away: ['c'] });
    assert.deepEqual(await kept.delete({ snapshot_id: id }, context), { unreachable: ['c'] });
    assert.deepEqual(deleted, [id]);
  }
  const held = keptCopies([knows('HELD')]);
  await refused(held.kept.delete({ snapshot_id: id }, context), 'FAILED_PRECONDITION', /'a' has snapshot/);
  const silent = keptCopies([answeringNode('a', { FindCopy: () => Promise.reject(CsiError.unavailable('away')) })]);
  await refused(silent.kept.delete({ snapshot_id: id }, context), 'UNAVAILABLE', /away/);
  const retired = keptCopies([knows('HELD')], { retired: 'a' });
  await retired.kept.delete({ snapshot_id: id }, context);
  assert.deepEqual([held.deleted, silent.deleted, retired.deleted], [[], [], [id]]);
});
