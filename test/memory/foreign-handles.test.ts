/** Handles that carry another node's key: refused by every RPC, and never taken for deleted objects. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HANDLE_FIELDS } from '../../src/csi/handle-fields.js';
import {
  newGroupSnapshotId,
  newSnapshotId,
  newVolumeId,
  nodeKey,
} from '../../src/domain/identifiers.js';
import { blockCapability, type Message } from '../support/csi-client.js';
import { forgetNodeId, openCatalogueHere } from '../support/direct-database.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { TEST_NODE_KEY, volumeRecord } from '../support/records.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('foreign', { pools: ['main'] });
const { orchestrator } = running;

const OTHER = nodeKey('other-node');

function handleFor(field: string, key: string): string {
  if (field.includes('group')) return newGroupSnapshotId(key);
  return field.includes('snapshot_id') ? newSnapshotId(key) : newVolumeId(key);
}

/** A request with nothing but the handle, in the field of that path. */
function requestWith(path: string, handle: string): Message {
  const [first = '', ...rest] = path.split('.');
  if (rest.length > 0) return { [first]: requestWith(rest.join('.'), handle) };
  return { [first]: first.endsWith('_ids') ? [handle] : handle };
}

function call(rpc: string, request: Message): Promise<unknown> {
  const { client } = running;
  if (rpc === 'GetMetadataAllocated' || rpc === 'GetMetadataDelta') {
    return client.metadata(rpc, request);
  }
  const unary = rpc.includes('Group') ? client.groups : client.controller;
  const service = rpc.startsWith('Node') ? client.node : unary;
  return (service as Record<string, (request: Message) => Promise<unknown>>)[rpc]?.(
    request,
  ) as Promise<unknown>;
}

const RELEASING = ['NodeUnstageVolume', 'NodeUnpublishVolume'];
/** Served by `BLOCKDELTA_CONTROLLER_PUBLISH=on` only; UNIMPLEMENTED otherwise. */
const OPTIONAL = ['ControllerPublishVolume', 'ControllerUnpublishVolume'];

for (const [rpc, paths] of Object.entries(HANDLE_FIELDS)) {
  if (RELEASING.includes(rpc) || OPTIONAL.includes(rpc)) continue;
  for (const path of paths) {
    test(`${rpc} refuses another node's handle in ${path} and names both nodes`, async () => {
      const handle = handleFor(path, OTHER);
      const code = rpc === 'CreateVolume' ? 'RESOURCE_EXHAUSTED' : 'FAILED_PRECONDITION';
      const message = await refused(call(rpc, requestWith(path, handle)), code);
      for (const part of [
        path.split('.').at(-1) ?? '',
        handle,
        OTHER,
        TEST_NODE_KEY,
        'test-node',
      ]) {
        assert.ok(message.includes(part), `${part} is missing in: ${message}`);
      }
    });
  }
}

test("a node releases what is mounted here whatever key the volume's handle has", async () => {
  for (const [rpc, field] of [
    ['NodeUnstageVolume', 'staging_target_path'],
    ['NodeUnpublishVolume', 'target_path'],
  ] as const) {
    const request = { volume_id: newVolumeId(OTHER), [field]: running.path('nothing', 'here') };
    await running.client.node[rpc](request);
  }
});

test('a handle of this node whose object is gone is deleted, and not refused', async () => {
  await running.client.controller.DeleteVolume({ volume_id: newVolumeId(TEST_NODE_KEY) });
  await running.client.controller.DeleteSnapshot({ snapshot_id: newSnapshotId(TEST_NODE_KEY) });
});

test('one foreign member makes a group refused, and a snapshot of this node is not taken', async () => {
  const own = await orchestrator.create('own');
  const source_volume_ids = [own.id, newVolumeId(OTHER)];
  await refused(
    running.client.groups.CreateVolumeGroupSnapshot({ name: 'mixed', source_volume_ids }),
    'FAILED_PRECONDITION',
    /^source_volume_ids\[1\]: /,
  );
  assert.deepEqual(await orchestrator.snapshotIds(), []);
  await orchestrator.delete(own);
});

test('volumes from before a change of the node id keep working, and repeated deletions of them succeed', async () => {
  const former = nodeKey('its-name-before');
  const volume = volumeRecord({ volumeId: newVolumeId(former), pool: 'main', name: 'before' });
  await running.stop();
  const file = running.path('state', 'catalogue.sqlite');
  forgetNodeId(file);
  const catalogue = openCatalogueHere(file);
  catalogue.insertVolume(volume);
  catalogue.close();
  const content = { sizeBytes: volume.sizeBytes, blocks: new Map() };
  running.storages.get('main')?.volumes.set(volume.volumeId, content);
  await running.start();
  const held = orchestrator.hold('before', {
    volume_id: volume.volumeId,
    capacity_bytes: String(volume.sizeBytes),
  });
  const snapshotId = await orchestrator.snapshot(held, 'of the old one');
  assert.ok(snapshotId.startsWith(`snap-${TEST_NODE_KEY}-`), 'new handles carry the present key');
  await orchestrator.expand(held, 32 * MIB);
  const clone = await running.client.controller.CreateVolume(
    createRequest('clone', {
      volumeId: held.id,
      sizeBytes: 32 * MIB,
      capability: blockCapability(),
    }),
  );
  await running.client.controller.DeleteVolume({ volume_id: clone['volume'].volume_id });
  await orchestrator.deleteSnapshot(snapshotId);
  await orchestrator.delete(held);
  await running.restart();
  await orchestrator.delete(held);
  await refused(
    running.client.controller.DeleteVolume({ volume_id: newVolumeId(OTHER) }),
    'FAILED_PRECONDITION',
  );
});
