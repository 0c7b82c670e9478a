/** ControllerPublishVolume and ControllerUnpublishVolume, where they are switched on. */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, writeSync } from 'node:fs';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { createRequest, type HeldVolume } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const NODE = 'test-node';
const MAXIMUM = 3;

const running = runPlugin('controller-publish', {
  pools: { main: 'xfs' },
  env: {
    BLOCKDELTA_CONTROLLER_PUBLISH: 'on',
    BLOCKDELTA_MAX_VOLUMES_PER_NODE: String(MAXIMUM),
  },
});
const { orchestrator } = running;
const controller = () => running.client.controller;
const request = (volume: HeldVolume, change: Message = {}): Message => ({
  volume_id: volume.id,
  node_id: NODE,
  volume_capability: volume.capability,
  ...change,
});
const publish = (volume: HeldVolume, change: Message = {}): Promise<Message> =>
  controller().ControllerPublishVolume(request(volume, change));
const unpublish = (volume: HeldVolume, node_id = NODE): Promise<Message> =>
  controller().ControllerUnpublishVolume({ volume_id: volume.id, node_id });
async function nodesOf(volume: HeldVolume): Promise<string[]> {
  const { status } = await controller().ControllerGetVolume({ volume_id: volume.id });
  const { entries } = await controller().ListVolumes({});
  const listed = entries.find((entry: Message) => entry['volume'].volume_id === volume.id);
  assert.deepEqual(listed.status.published_node_ids, status.published_node_ids);
  return status.published_node_ids;
}

/** A volume for one test, which nobody holds in the end. */
async function withVolume(
  name: string,
  work: (volume: HeldVolume) => Promise<void>,
): Promise<void> {
  const volume = await orchestrator.create(name);
  try {
    await work(volume);
  } finally {
    await unpublish(volume, '');
    await orchestrator.delete(volume);
  }
}

/** What the call throws; null if it does not. */
function outcomeOf(call: () => void): unknown {
  try {
    call();
    return null;
  } catch (thrown) {
    return thrown;
  }
}

test('CC1: publishing, read-only too, and the lists of nodes are advertised', async () => {
  const { capabilities } = await controller().ControllerGetCapabilities({});
  const types = capabilities.map((capability: Message) => capability['rpc'].type);
  for (const type of [
    'PUBLISH_UNPUBLISH_VOLUME',
    'PUBLISH_READONLY',
    'LIST_VOLUMES_PUBLISHED_NODES',
  ]) {
    assert.ok(types.includes(type), type);
  }
});

test('CP1: each required field that is missing is INVALID_ARGUMENT and named', async () => {
  await withVolume('fields', async (volume) => {
    for (const [field, empty] of [
      ['volume_id', ''],
      ['node_id', ''],
      ['volume_capability', null],
    ] as const) {
      const call = publish(volume, { [field]: empty });
      await refused(call, 'INVALID_ARGUMENT', new RegExp(`^${field} `));
    }
    const unknown = publish(volume, { volume_id: 'none-exist-id', volume_capability: null });
    await refused(unknown, 'INVALID_ARGUMENT', /^volume_capability /);
  });
});

test('CP2: an unknown volume is NOT_FOUND, before the node and the values are checked', async () => {
  await withVolume('unknown', async (volume) => {
    const change = {
      volume_id: 'none-exist-id',
      node_id: 'nobody',
      volume_capability: { block: {} },
    };
    await refused(publish(volume, change), 'NOT_FOUND', /none-exist-id/);
  });
});

test('CP3, CP10: any other node is NOT_FOUND, and nothing is published', async () => {
  await withVolume('node', async (volume) => {
    for (const node_id of ['nobody', 'Test-Node', 'n'.repeat(256)]) {
      await refused(publish(volume, { node_id }), 'NOT_FOUND', /test-node only/);
    }
    await refused(publish(volume, { node_id: 'n'.repeat(257) }), 'INVALID_ARGUMENT', /^node_id /);
    assert.deepEqual(await nodesOf(volume), []);
  });
});

test('CP4, CP11: publishing again in the same way answers the same, also after a kill', async () => {
  await withVolume('again', async (volume) => {
    const first = await publish(volume);
    assert.deepEqual(first, { publish_context: {} });
    assert.deepEqual(await publish(volume), first);
    await running.crash();
    assert.deepEqual(await publish(volume), first);
    assert.deepEqual(await nodesOf(volume), [NODE]);
  });
});

test('CP5: a volume published with another readonly flag or capability is ALREADY_EXISTS', async () => {
  await withVolume('other', async (volume) => {
    await publish(volume);
    await refused(publish(volume, { readonly: true }), 'ALREADY_EXISTS', /readonly/);
    for (const volume_capability of [
      mountCapability(),
      blockCapability('SINGLE_NODE_READER_ONLY'),
    ]) {
      const call = publish(volume, { volume_capability });
      await refused(call, 'ALREADY_EXISTS', /volume_capability/);
    }
    assert.deepEqual(await nodesOf(volume), [NODE]);
  });
});

test('CP7: a node at its maximum accepts no more volumes until one is unpublished', async () => {
  const volumes: HeldVolume[] = [];
  for (let index = 0; index <= MAXIMUM; index += 1) {
    volumes.push(await orchestrator.create(`maximum ${index}`));
  }
  const outcomes = await Promise.allSettled(volumes.map((volume) => publish(volume)));
  const late = volumes.filter((_, index) => outcomes[index]?.status === 'rejected');
  assert.equal(late.length, 1, 'of several at once no more than fit');
  for (const volume of late) await refused(publish(volume), 'RESOURCE_EXHAUSTED', /3/);
  const published = volumes.filter((volume) => !late.includes(volume));
  for (const volume of published) await publish(volume);
  for (const volume of published.slice(0, 1)) await unpublish(volume);
  for (const volume of late) await publish(volume);
  for (const volume of volumes) {
    await unpublish(volume);
    await orchestrator.delete(volume);
  }
});

test('CP8: a volume published read-only cannot be written to on the node', async () => {
  await withVolume('reading', async (volume) => {
    const write = (): void => {
      const device = openSync(volume.targetPath, 'r+');
      try {
        writeSync(device, Buffer.alloc(4096, 'w'));
        fsyncSync(device);
      } finally {
        closeSync(device);
      }
    };
    for (const readonly of [true, false]) {
      await publish(volume, { readonly });
      await orchestrator.bringUp(volume);
      const written = outcomeOf(write);
      await orchestrator.takeDown(volume);
      await unpublish(volume);
      if (readonly) assert.match(String(written), /EPERM|EACCES|EROFS|EIO/);
      else assert.equal(written, null);
    }
  });
});

test('CP9: an unsupported capability or a foreign context is INVALID_ARGUMENT', async () => {
  await withVolume('capability', async (volume) => {
    const many = publish(volume, { volume_capability: blockCapability('MULTI_NODE_MULTI_WRITER') });
    await refused(many, 'INVALID_ARGUMENT', /one node|own node/);
    const broken = publish(volume, { volume_capability: { block: {} } });
    await refused(broken, 'INVALID_ARGUMENT', /^volume_capability/);
    const context = publish(volume, { volume_context: { key: 'value' } });
    await refused(context, 'INVALID_ARGUMENT', /^volume_context /);
    assert.deepEqual(await nodesOf(volume), []);
  });
});

test('CU1: ControllerUnpublishVolume without an id is INVALID_ARGUMENT', async () => {
  const call = controller().ControllerUnpublishVolume({ node_id: NODE });
  await refused(call, 'INVALID_ARGUMENT', /^volume_id /);
});

test('CU2, CU4: unpublishing a volume that is not published, or an unknown volume or node, succeeds', async () => {
  await withVolume('not published', async (volume) => {
    await unpublish(volume);
    await publish(volume);
    await unpublish(volume, 'nobody');
    assert.deepEqual(await nodesOf(volume), [NODE], 'another node is another matter');
    await unpublish(volume);
    await unpublish(volume);
    assert.deepEqual(await nodesOf(volume), []);
  });
  const unknown = { volume_id: 'none-exist-id', node_id: NODE };
  await controller().ControllerUnpublishVolume(unknown);
});

test('CU3: without a node the volume is unpublished everywhere', async () => {
  await withVolume('everywhere', async (volume) => {
    await publish(volume);
    await unpublish(volume, '');
    assert.deepEqual(await nodesOf(volume), []);
  });
});

test('LV6, GV4: the lists name the node of a published volume', async () => {
  await withVolume('listed', async (volume) => {
    const other = await orchestrator.create('not listed');
    assert.deepEqual(await nodesOf(volume), []);
    await publish(volume);
    assert.deepEqual(await nodesOf(volume), [NODE]);
    assert.deepEqual(await nodesOf(other), []);
    await orchestrator.delete(other);
  });
});

test('DV3: a published volume is FAILED_PRECONDITION, also where no node uses it', async () => {
  await withVolume('in use', async (volume) => {
    await publish(volume);
    await refused(
      orchestrator.delete(volume),
      'FAILED_PRECONDITION',
      /published on node test-node/,
    );
    assert.deepEqual(await nodesOf(volume), [NODE]);
  });
});

test('CV4: a volume deleted and recreated under its name is not published', async () => {
  const first = await orchestrator.create('reused');
  await publish(first);
  await unpublish(first);
  await orchestrator.delete(first);
  const { volume } = await controller().CreateVolume(createRequest('reused'));
  const { status } = await controller().ControllerGetVolume({ volume_id: volume.volume_id });
  assert.deepEqual(status.published_node_ids, []);
  await controller().DeleteVolume({ volume_id: volume.volume_id });
});
