/** Copies of snapshots on other nodes, before nodes that answer what the test says: who is asked, in which order, and codes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSnapshotId, newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import type { CopyMessage, NodeRpcs } from '../../../src/base/csi/node-proto.js';
import type { CallContext } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { createLogger } from '../../../src/base/logger.js';
import { Copies, type CopiesDependencies } from '../../../src/router/copies.js';
import { RemoteSources } from '../../../src/router/remote-sources.js';
import { type AnsweringNode, type Answers, answeringNode } from '../../support/answering-node.js';
import { eventually } from '../../support/eventually.js';
import { refused } from '../../support/refusal.js';

const volumeId = newVolumeId(nodeKey('a'));
const snapshotId = newSnapshotId(nodeKey('a'));
const pending: CopyMessage = {
  snapshot_id: snapshotId,
  promise_id: '1'.repeat(32),
  node_id: 'b',
  state: 'PENDING',
  pool: 'fast',
  volume_id: volumeId,
};
const ROOM = { holds: true, room_bytes: '100' };
const COMPLETE: Answers = { FindSnapshot: () => ({ pull: { status: 'COMPLETE' } }), KeepReplica: () => ({}) };
const HOUR_MS = 3_600_000;

function copies(
  nodes: readonly AnsweringNode[],
  now = (): number => 0,
  successions: Partial<CopiesDependencies['successions']> = {},
): Copies {
  const logger = createLogger('info', { write: () => undefined });
  const all = () => nodes.map(({ node }) => node);
  const owning = (key: string) => all().find((node) => node.key === key) ?? assert.fail(key);
  const sources = new RemoteSources({ nodes: all, owning, logger, now, roundMs: HOUR_MS });
  const patience = () => new Promise<void>(() => undefined);
  const told = { clear: async () => undefined, tell: async () => undefined, ...successions };
  return new Copies({ nodes: all, successions: told, sources, patience, logger, now, roundMs: HOUR_MS });
}

const context = (): CallContext =>
  ({
    encodedRequest: Buffer.from('request'),
    deadline: Date.now() + 60_000,
    signal: new AbortController().signal,
  }) as never;

/** The node of the snapshot, with one copy to settle, and what it is told. */
function owner(copy: CopyMessage, answers: Answers = {}) {
  const reports: [string | number, string][] = [];
  const chosen: string[] = [];
  const own = answeringNode('a', {
    ListCopies: () => ({ copies: reports.length + chosen.length === 0 ? [copy] : [] }),
    ReportCopy: ({ promise_id, outcome, failure }) => {
      assert.equal(promise_id, copy.promise_id);
      reports.push([outcome, failure]);
      return {};
    },
    ChooseCopy: ({ node_id, promise_id }) => {
      assert.equal(promise_id, copy.promise_id);
      chosen.push(node_id);
      return {};
    },
    CloseTransfer: () => ({}),
    FindRoom: () => ({ serves: true, pool: 'fast' }),
    ...answers,
  });
  return { ...own, reports, chosen };
}

test('a snapshot is taken for the node with the newest replica, then for the one with most room', async () => {
  const taken: string[] = [];
  const asked: string[] = [];
  const own = owner(pending, {
    CreateCopiedSnapshot: ({ request, node_id }) => {
      assert.equal(request.toString(), 'request');
      if (node_id !== '') taken.push(node_id);
      return { response: Buffer.from(node_id) };
    },
  });
  const room = (fields: object) => ({
    FindRoom: ({ pool }: NodeRpcs['FindRoom'][0]) => {
      asked.push(pool);
      return { ...ROOM, ...fields };
    },
  });
  const others = [
    answeringNode('b', room({ newest_sequence: '3' })),
    answeringNode('c', room({ newest_sequence: '4', room_bytes: '1' })),
    answeringNode('d', room({ room_bytes: '900' })),
    answeringNode('e', room({ newest_sequence: '9', holds: false })),
    answeringNode('f', room({ newest_sequence: '9', room_bytes: '0' })),
    answeringNode('g', {}),
    answeringNode('h', room({ newest_sequence: '9' }), { isConnected: false }),
  ];
  const make = (nodes: readonly AnsweringNode[]) => copies(nodes).createSnapshot(own.node, volumeId, context());
  assert.equal((await make([own, ...others])).toString(), 'c');
  assert.deepEqual([taken, [...new Set(asked)]], [['c'], ['fast']]);
  const [b, , d] = others as [AnsweringNode, AnsweringNode, AnsweringNode];
  assert.equal((await make([own, b, d])).toString(), 'b');
  assert.equal((await make([own, d])).toString(), 'd');
});

test('without a node that could hold a copy nothing is taken, and a snapshot that is there already is found all the same', async () => {
  const taken: string[] = [];
  const takes = (known: string): Answers => ({
    CreateCopiedSnapshot: ({ node_id }) => {
      taken.push(node_id);
      return { response: Buffer.from(known) };
    },
  });
  const own = owner(pending, takes(''));
  const full = answeringNode('b', { FindRoom: () => ({ ...ROOM, room_bytes: '0' }) });
  await refused(
    copies([own, full]).createSnapshot(own.node, volumeId, context()),
    'FAILED_PRECONDITION',
    /no other node can hold/,
  );
  const mute = owner(pending, { ...takes(''), FindRoom: () => ({ serves: false }) });
  await refused(
    copies([mute, full]).createSnapshot(mute.node, volumeId, context()),
    'FAILED_PRECONDITION',
    /BLOCKDELTA_TRANSFER_PORTS/,
  );
  assert.deepEqual(taken, ['', '']);
  const known = owner(pending, takes('known'));
  assert.equal((await copies([known]).createSnapshot(known.node, volumeId, context())).toString(), 'known');
});

test('a copy is promised before the node of the snapshot hears of it', async () => {
  const order: string[] = [];
  const own = owner(pending, {
    ReportCopy: ({ outcome }) => {
      order.push(String(outcome));
      return {};
    },
  });
  const other = answeringNode('b', {
    ...COMPLETE,
    KeepReplica: ({ snapshot_id, promise_id }) => {
      assert.deepEqual([snapshot_id, promise_id], [snapshotId, pending.promise_id]);
      order.push('kept there');
      return {};
    },
  });
  await copies([own, other]).round();
  await eventually('it is reported', () => order.includes('KEPT'));
  assert.deepEqual(order, ['kept there', 'KEPT']);
});

test('a copy is removed before the node of the snapshot forgets it, and stays on record while its node is away', async () => {
  const ending = { ...pending, state: 'ENDING', volume_id: '' };
  const own = owner(ending);
  const other = answeringNode('b', { EndReplica: () => ({}) });
  await copies([own, other]).round();
  await eventually('it is reported', () => own.reports.length === 1);
  assert.deepEqual([own.reports, other.asked], [[['ENDED', '']], ['ListCopies', 'EndReplica']]);
  const left = owner(ending);
  const aborting = () => {
    throw CsiError.aborted('in use');
  };
  const nodes = [
    [left, answeringNode('b', {}, { isConnected: false })],
    [left],
    [left, answeringNode('b', { EndReplica: aborting })],
  ];
  for (const each of nodes) await copies(each).round();
  await eventually('all have tried', () => nodes[2]?.[1]?.asked.length === 2);
  assert.deepEqual([left.reports, left.chosen], [[], []]);
});

const failing = (error: CsiError): Answers => ({
  FindSnapshot: () => {
    throw error;
  },
});

/** What one round makes of a pending copy on node b: what is reported, and which node is chosen. */
async function outcome(b: AnsweringNode | null, others: readonly AnsweringNode[], now = 0) {
  const own = owner(pending);
  await copies([own, ...(b === null ? [] : [b]), ...others], () => now).round();
  await eventually('the round has ended', () => own.reports.length + own.chosen.length > 0);
  return { reports: own.reports, chosen: own.chosen };
}

test('another node is chosen when the first has been away for ten minutes, is not listed, or refuses for its room', async () => {
  const c = () => answeringNode('c', { ...COMPLETE, FindRoom: () => ({ ...ROOM, room_bytes: '500' }) });
  const away = (since: number) => answeringNode('b', {}, { isConnected: false, unreachableSince: since });
  const full = (bytes: string) =>
    answeringNode('b', {
      ...failing(CsiError.resourceExhausted('full')),
      FindRoom: () => ({ ...ROOM, room_bytes: bytes }),
    });
  assert.deepEqual((await outcome(away(0), [c()], 600_000)).chosen, ['c']);
  assert.deepEqual((await outcome(null, [c()])).chosen, ['c']);
  assert.deepEqual((await outcome(full('0'), [c()])).chosen, ['c']);
  assert.deepEqual((await outcome(full('499'), [c()])).chosen, ['c']);
  const none = answeringNode('b', {
    ...failing(CsiError.failedPrecondition('no pool')),
    FindRoom: () => ({ holds: false }),
  });
  assert.deepEqual((await outcome(none, [c()])).chosen, ['c']);
  // Two nodes without enough room are not chosen in turn, and a short absence is waited for.
  for (const [b, now] of [
    [full('500'), 0],
    [away(1), 600_000],
  ] as const) {
    const { reports, chosen } = await outcome(b, [c()], now);
    assert.deepEqual([reports.length, reports[0]?.[0], chosen], [1, 'FAILED', []]);
  }
  const broken = answeringNode('b', { ...failing(CsiError.failedPrecondition('damaged')), FindRoom: () => ROOM });
  const { reports, chosen } = await outcome(broken, [c()]);
  assert.deepEqual([reports, chosen], [[['FAILED', 'damaged; it is tried again']], []]);
  assert.match(
    String((await outcome(null, [])).reports[0]?.[1]),
    /node 'b', which is to keep the copy, cannot be reached/,
  );
});

test('the deletion of a snapshot that its node does not know goes to all other nodes', async () => {
  const deleted: string[] = [];
  const holder = (id: string) =>
    answeringNode(id, {
      DeleteReplica: ({ snapshot_id }) => {
        deleted.push(`${snapshot_id} on ${id}`);
        return {};
      },
    });
  const run = async (answers: Answers): Promise<string[]> => {
    deleted.length = 0;
    const own = owner(pending, { ListCopies: () => ({}), ...answers });
    const nodes = [own, holder('b'), answeringNode('c', {}), holder('d')];
    const answer = await copies(nodes).deleteSnapshot(own.node, snapshotId, context(), async () => Buffer.from('done'));
    assert.equal(answer.toString(), 'done');
    return deleted;
  };
  const says = (own: string): Answers => ({ FindCopy: () => ({ own }) });
  assert.deepEqual(await run(says('ABSENT')), [`${snapshotId} on b`, `${snapshotId} on d`]);
  assert.deepEqual(await run(says('HELD')), []);
  assert.deepEqual(await run(says('LOST')), []);
  // As a node of an older version.
  assert.deepEqual(await run({}), []);
  // Who has deleted it is told so when it is.
  const lost = (): never => {
    throw CsiError.unavailable('lost');
  };
  await refused(run({ FindCopy: lost }), 'UNAVAILABLE');
  const other = owner(pending, says('ABSENT'));
  const nodes = [other, answeringNode('b', { DeleteReplica: lost }), answeringNode('c', {}, { isConnected: false })];
  const done = async (): Promise<Buffer> => Buffer.alloc(0);
  await refused(copies(nodes).deleteSnapshot(other.node, snapshotId, context(), done), 'UNAVAILABLE');
  // A snapshot that was not deleted keeps its copies.
  const own = owner(pending, says('ABSENT'));
  const refusing = async (): Promise<Buffer> => {
    throw CsiError.failedPrecondition('it is read');
  };
  deleted.length = 0;
  await refused(
    copies([own, holder('b')]).deleteSnapshot(own.node, snapshotId, context(), refusing),
    'FAILED_PRECONDITION',
  );
  assert.deepEqual(deleted, []);
});

test('a node that has booted is cleared when it is reached, and again if that has failed', async () => {
  let awaits = true;
  const cleared: string[] = [];
  const own = owner(pending, { ListCopies: () => ({ awaits_clearance: awaits }) });
  const clear = async ({ id }: { id: string }): Promise<void> => {
    cleared.push(id);
    if (cleared.length === 1) throw CsiError.unavailable('not all nodes answer');
    awaits = false;
  };
  const router = copies([own, answeringNode('b', {})], () => 0, { clear });
  await router.connected(nodeKey('b'));
  assert.deepEqual(own.asked, []);
  for (let count = 0; count < 3; count += 1) await router.connected(nodeKey('a'));
  assert.deepEqual(cleared, ['a', 'a']);
});

test('a round goes on with the successions that old nodes could not be told, whatever fails with one', async () => {
  const untold = ['old', 'older'].map((old_volume_id) => ({ old_volume_id, new_volume_id: 'new', told: false }));
  const told: unknown[] = [];
  const own = owner(pending, { ListCopies: () => ({ untold }) });
  const tell = async ({ id }: { id: string }, some: { old_volume_id: string }): Promise<void> => {
    told.push([id, some.old_volume_id]);
    throw CsiError.failedPrecondition('it is staged');
  };
  const router = copies([own], () => 0, { tell });
  for (let count = 0; count < 2; count += 1) await router.connected(nodeKey('a'));
  const round = [
    ['a', 'old'],
    ['a', 'older'],
  ];
  assert.deepEqual(told, [...round, ...round]);
});
