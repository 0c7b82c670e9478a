/** Which nodes may make volumes from a copy of a snapshot, by what its own node and the others answer. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import type { CallContext } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { createLogger } from '../../../src/base/logger.js';
import { Recovery } from '../../../src/router/recovery.js';
import { RemoteSources } from '../../../src/router/remote-sources.js';
import { type AnsweringNode, answeringNode } from '../../support/answering-node.js';

const snapshotId = newSnapshotId(nodeKey('a'));
const context = { deadline: Infinity, signal: new AbortController().signal } as CallContext;
const gone = CsiError.notFound('no such snapshot');

/** The node of the snapshot. */
const owner = (own: string, catalogue_uuid = 'of the snapshot') =>
  answeringNode('a', { FindCopy: () => ({ own, catalogue_uuid }) });

const holder = (id: string, isConnected = true) =>
  answeringNode(
    id,
    { FindCopy: () => ({ own: 'ABSENT', catalogue_uuid: id, kept: { catalogue_uuid: 'of the snapshot' } }) },
    { isConnected },
  );

async function holders(
  nodes: readonly AnsweringNode[],
  refusal: unknown = gone,
  retired: string[] = [],
): Promise<string[]> {
  const all = () => nodes.map(({ node }) => node);
  const logger = createLogger('info', { write: () => undefined });
  const owning = () => assert.fail();
  const sources = new RemoteSources({ nodes: all, owning, logger, now: () => 0, roundMs: 3_600_000 });
  const isRetired = (key: string): boolean => retired.map(nodeKey).includes(key);
  const found = await new Recovery({ nodes: all, isRetired, sources }).holders(snapshotId, refusal, context);
  return found.map(({ id }) => id);
}

test('a snapshot is lost if its node says so, was reinstalled, or is retired; then the nodes with a copy are named', async () => {
  const others = [
    holder('b'),
    answeringNode('c', { FindCopy: () => ({ own: 'ABSENT' }) }),
    answeringNode('d', {}),
    holder('e'),
  ];
  assert.deepEqual(await holders([owner('LOST'), ...others]), ['b', 'e']);
  assert.deepEqual(await holders([owner('ABSENT', 'of another life'), ...others]), ['b', 'e']);
  assert.deepEqual(await holders(others, CsiError.failedPrecondition('it is retired'), ['a']), ['b', 'e']);
  assert.deepEqual(await holders([owner('LOST'), holder('b', false), holder('e')]), ['e']);
});

test('a snapshot is not lost if its node has it, has deleted it, does not answer, or refuses for another reason', async () => {
  assert.deepEqual(await holders([owner('HELD'), holder('b')]), []);
  assert.deepEqual(await holders([owner('ABSENT'), holder('b')]), []);
  const silent = answeringNode('a', {}, { isConnected: false });
  assert.deepEqual(await holders([silent, holder('b')], CsiError.unavailable('away')), []);
  assert.deepEqual(await holders([answeringNode('a', {}), holder('b')]), []);
  assert.deepEqual(await holders([holder('b')], CsiError.unavailable('not listed')), []);
  for (const refusal of [
    CsiError.resourceExhausted('full'),
    CsiError.invalidArgument('size'),
    CsiError.aborted('busy'),
  ]) {
    assert.deepEqual(await holders([owner('LOST'), holder('b')], refusal), []);
  }
});
