/** Volumes that take the place of others, before nodes that answer what the test says: who is told, and in which order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import type { NodeRpc } from '../../../src/base/csi/node-proto.js';
import type { CallContext } from '../../../src/base/csi/service.js';
import { CsiError } from '../../../src/base/errors.js';
import { createLogger } from '../../../src/base/logger.js';
import { RemoteSources } from '../../../src/router/remote-sources.js';
import { Successions } from '../../../src/router/successions.js';
import { type AnsweringNode, type Answers, answeringNode } from '../../support/answering-node.js';
import { refused } from '../../support/refusal.js';

const [oldId, newId] = [newVolumeId(nodeKey('a')), newVolumeId(nodeKey('b'))];
const succession = { old_volume_id: oldId, new_volume_id: newId };
const context = { deadline: Infinity, signal: new AbortController().signal } as CallContext;

function successions(nodes: readonly AnsweringNode[], { retired = '', knowsRetired = true } = {}): Successions {
  const all = () => nodes.map(({ node }) => node);
  const owning = (key: string) => {
    const found = all().find((node) => node.key === key);
    if (found === undefined) throw CsiError.unavailable('not listed');
    return found;
  };
  const logger = createLogger('info', { write: () => undefined });
  const sources = new RemoteSources({ nodes: all, owning, logger, now: () => 0, roundMs: 3_600_000 });
  const isRetired = (key: string): boolean => retired !== '' && key === nodeKey(retired);
  return new Successions({ nodes: all, owning, isRetired, knowsRetired: () => knowsRetired, sources });
}

/** Nodes that note their calls in one list. */
function noting(id: string, order: string[], answers: Answers = {}): AnsweringNode {
  const note = (rpc: NodeRpc) => (request: object) => {
    const { told, ...rest } = request as Partial<typeof succession> & { told?: boolean };
    if (rpc !== 'ClearStaging') assert.deepEqual(rest, succession);
    order.push(`${id} ${rpc}${rpc === 'RecordSuccession' && told !== true ? ', not told' : ''}`);
    return {};
  };
  const told = (['SupersedeVolume', 'RecordSuccession', 'ClearStaging'] as const).map((rpc) => [rpc, note(rpc)]);
  return answeringNode(id, { ListSuccessions: () => ({}), ...Object.fromEntries(told), ...answers });
}

const refusing = (error: CsiError) => (): never => {
  throw error;
};

test('the old volume refuses to be staged before the record is made, and the record alone counts where its node is retired', async () => {
  const order: string[] = [];
  const [a, b] = [noting('a', order), noting('b', order)];
  await successions([a, b]).supersede(succession, context);
  assert.deepEqual(order, ['a SupersedeVolume', 'b RecordSuccession']);
  order.length = 0;
  await successions([b], { retired: 'a' }).supersede(succession, context);
  assert.deepEqual(order, ['b RecordSuccession, not told']);
});

test('a node that is no longer retired is told, and then the record says so', async () => {
  const order: string[] = [];
  const untold = { ...succession, told: false };
  const [a, b] = [noting('a', order), noting('b', order)];
  await successions([b], { retired: 'a' }).tell(b.node, untold);
  await successions([a, b], { knowsRetired: false }).tell(b.node, untold);
  const staged = noting('a', order, { SupersedeVolume: refusing(CsiError.failedPrecondition('it is staged')) });
  await refused(successions([staged, b]).tell(b.node, untold), 'FAILED_PRECONDITION', /staged/);
  assert.deepEqual(order, []);
  await successions([a, b]).tell(b.node, untold);
  assert.deepEqual(order, ['a SupersedeVolume', 'b RecordSuccession']);
});

test('a cordon is a question for the node of the volume', async () => {
  const cordons: object[] = [];
  const a = answeringNode('a', {
    CordonVolume: (request) => {
      cordons.push({ ...request });
      return {};
    },
  });
  for (const undo of [false, true]) await successions([a]).cordon({ volume_id: oldId, undo }, context);
  assert.deepEqual(cordons, [
    { volume_id: oldId, undo: false },
    { volume_id: oldId, undo: true },
  ]);
  await refused(successions([a]).cordon({ volume_id: newId, undo: false }, context), 'UNAVAILABLE', /not listed/);
  await refused(successions([a]).cordon({ volume_id: 'vol', undo: false }, context), 'INVALID_ARGUMENT', /volume_id/);
});

test('nothing is recorded while the old volume is staged, or its node does not answer', async () => {
  const order: string[] = [];
  const b = noting('b', order);
  const staged = noting('a', order, { SupersedeVolume: refusing(CsiError.failedPrecondition('it is staged')) });
  await refused(successions([staged, b]).supersede(succession, context), 'FAILED_PRECONDITION', /staged/);
  await refused(successions([b]).supersede(succession, context), 'UNAVAILABLE', /not listed/);
  assert.deepEqual(order, []);
  const wrong = { ...succession, new_volume_id: 'vol' };
  await refused(successions([b]).supersede(wrong, context), 'INVALID_ARGUMENT', /new_volume_id is not the handle/);
  await refused(
    successions([b]).supersede({ ...succession, new_volume_id: oldId }, context),
    'INVALID_ARGUMENT',
    /the same/,
  );
});

test('a node that has booted hears what is superseded before it may stage, and waits for all nodes to say so', async () => {
  const order: string[] = [];
  const other = { old_volume_id: newVolumeId(nodeKey('c')), new_volume_id: newId };
  const knows: Answers = { ListSuccessions: () => ({ successions: [other, succession] }) };
  const [a, b, c] = [noting('a', order), noting('b', order, knows), noting('c', order)];
  await successions([a, b, c]).clear(a.node);
  assert.deepEqual(order, ['a SupersedeVolume', 'a ClearStaging']);
  order.length = 0;
  const silent = answeringNode('b', { ListSuccessions: refusing(CsiError.unavailable('away')) });
  await refused(successions([a, silent, c]).clear(a.node), 'UNAVAILABLE', /away/);
  const failing = noting('a', order, { SupersedeVolume: refusing(CsiError.resourceExhausted('full')) });
  await refused(successions([failing, b]).clear(failing.node), 'RESOURCE_EXHAUSTED');
  await refused(successions([a, b, c], { knowsRetired: false }).clear(a.node), 'UNAVAILABLE', /not known/);
  assert.deepEqual(order, []);
});
