import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeKey } from '../../../src/base/csi/handles.js';
import { type NodeIdentity, settleNodeIdentity } from '../../../src/driver/volumes/node-identity.js';
import { refused } from '../../support/refusal.js';
import { managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();
function settle(nodeId: string): Promise<NodeIdentity> {
  return settleNodeIdentity({ catalogue: managers.catalogue, stateDirectory: '/state' }, nodeId);
}

test('a new catalogue takes the node id of its first start and keeps it', async () => {
  const first = await settle('node-a');
  assert.deepEqual(first, { nodeId: 'node-a', key: nodeKey('node-a') });
  assert.equal(await managers.catalogue.nodeId(), 'node-a');
  assert.deepEqual(await settle('node-a'), first);
});

test('a start under another node id is refused, changes nothing and says what to do', async () => {
  await settle('node-a');
  await refused(
    settle('pod-7c9f'),
    'FAILED_PRECONDITION',
    /belongs to node 'node-a'.*'pod-7c9f'.*set BLOCKDELTA_NODE_ID=node-a;.*retire/s,
  );
  assert.equal(await managers.catalogue.nodeId(), 'node-a');
  await settle('node-a');
});
