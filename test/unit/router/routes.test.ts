import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { HANDLE_FIELDS } from '../../../src/base/csi/handle-fields.js';
import { nodeKey } from '../../../src/base/csi/handles.js';
import { csiProto, servedServices } from '../../../src/base/csi/proto.js';
import { ownerIn, ROUTES } from '../../../src/router/routes.js';

const handle = (kind: string, node: string): string => `${kind}-${nodeKey(node)}-${randomUUID()}`;

test('every RPC of the proto but those of Node has a route', () => {
  const rpcs = Object.entries(servedServices())
    .filter(([service]) => service !== 'Node')
    .flatMap(([, methods]) => Object.keys(methods));
  assert.deepEqual(Object.keys(ROUTES).toSorted(), rpcs.toSorted());
});

test('an RPC is routed by handles if and only if its request has them', () => {
  for (const [rpc, route] of Object.entries(ROUTES)) {
    const hasHandles = Object.hasOwn(HANDLE_FIELDS, rpc);
    if (['handle', 'copied', 'everywhere'].includes(route)) assert.ok(hasHandles, rpc);
    else if (hasHandles) assert.ok(['placed', 'list'].includes(route), rpc);
  }
});

test('the fields of a page are the first two of all lists, and entries and token of their responses', () => {
  for (const [rpc, route] of Object.entries(ROUTES)) {
    if (route !== 'list') continue;
    const { fields: request } = csiProto().root.lookupType(`csi.v1.${rpc}Request`);
    assert.deepEqual([request['max_entries']?.id, request['starting_token']?.id], [1, 2], rpc);
    const { fields: response } = csiProto().root.lookupType(`csi.v1.${rpc}Response`);
    assert.deepEqual([response['entries']?.id, response['next_token']?.id], [1, 2], rpc);
  }
});

test('a string that is no handle names no node', () => {
  for (const volume_id of ['', 'abc', `vol-${nodeKey('a')}`, `${handle('vol', 'a')} `]) {
    assert.equal(ownerIn('DeleteVolume', { volume_id }), null, volume_id);
  }
  const snapshot_id = handle('snap', 'a');
  const mixed = { base_snapshot_id: 'abc', target_snapshot_id: snapshot_id };
  assert.equal(ownerIn('GetMetadataDelta', mixed)?.handle, snapshot_id);
});
