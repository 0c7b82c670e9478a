import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { newVolumeId, nodeKey } from '../../../src/base/csi/handles.js';
import {
  type NodeIdentity,
  settleNodeIdentity,
} from '../../../src/driver/volumes/node-identity.js';
import { rejectsWith } from '../../support/expect-status.js';
import { volumeRecord } from '../../support/records.js';
import { managersOfEachTest } from './manager-fixture.js';

const managers = managersOfEachTest();
let warnings: object[];

beforeEach(() => {
  warnings = [];
});

function settle(nodeId: string): Promise<NodeIdentity> {
  const logger = { warn: (fields: object) => warnings.push(fields) };
  const deps = { catalogue: managers.catalogue, stateDirectory: '/state', logger };
  return settleNodeIdentity(deps as never, nodeId);
}

test('a new catalogue takes the node id of its first start and keeps it', async () => {
  const first = await settle('node-a');
  assert.deepEqual([...first.keys], [nodeKey('node-a')]);
  assert.equal(await managers.catalogue.nodeId(), 'node-a');
  assert.deepEqual(await settle('node-a'), first);
  assert.deepEqual(warnings, []);
});

test('a start under another node id is refused, changes nothing and says what to do', async () => {
  await settle('node-a');
  await rejectsWith(
    settle('pod-7c9f'),
    'FAILED_PRECONDITION',
    /belongs to node 'node-a'.*'pod-7c9f'.*set BLOCKDELTA_NODE_ID=node-a;.*retire/s,
  );
  assert.equal(await managers.catalogue.nodeId(), 'node-a');
  await settle('node-a');
});

test('a catalogue that recorded no node id takes the present one, and keeps the keys of its handles for ever', async () => {
  const former = nodeKey('pod-1234');
  const volume = volumeRecord({ volumeId: newVolumeId(former) });
  await managers.catalogue.insertVolume(volume);
  const keys = new Set([nodeKey('node-a'), former]);
  assert.deepEqual((await settle('node-a')).keys, keys);
  assert.deepEqual(warnings, [{ nodeId: 'node-a', key: nodeKey('node-a'), otherKeys: [former] }]);
  await managers.catalogue.removeVolume(volume.volumeId);
  assert.deepEqual((await settle('node-a')).keys, keys, 'also when no handle carries it any more');
  assert.equal(warnings.length, 1, 'logged once');
});
