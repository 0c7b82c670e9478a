import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeKey } from '../../../src/base/csi/handles.js';
import { claimNodeIdentity, type NodeIdentity } from '../../../src/driver/volumes/node-identity.js';
import { refused } from '../../support/refusal.js';
import { managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();
function claim(nodeId: string): Promise<NodeIdentity> {
  return claimNodeIdentity({ catalogue: managers.catalogue, stateDirectory: '/state' }, nodeId);
}

test('a new catalogue takes the node id of its first start and keeps it', async () => {
  const first = await claim('node-a');
  assert.deepEqual(first, { nodeId: 'node-a', key: nodeKey('node-a') });
  assert.equal(await managers.catalogue.nodeId(), 'node-a');
  assert.deepEqual(await claim('node-a'), first);
});

test('a start under another node id is refused, changes nothing and says what to do', async () => {
  await claim('node-a');
  await refused(
    claim('pod-7c9f'),
    'FAILED_PRECONDITION',
    /belongs to node 'node-a'.*'pod-7c9f'.*set BLOCKDELTA_NODE_ID=node-a;.*retire/s,
  );
  assert.equal(await managers.catalogue.nodeId(), 'node-a');
  await claim('node-a');
});
