/** CreateVolume: required fields, capabilities, parameters, idempotence by name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { knownParameters } from '../../src/volumes/volume-parameters.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const WRITER = { mode: 'SINGLE_NODE_WRITER' };

const running = runMemoryPlugin('create', { pools: ['main', 'other'] });
const create = (request: Message): Promise<Message> =>
  running.client.controller.CreateVolume(request);
const { orchestrator } = running;

const broken: Readonly<Record<string, Message>> = {
  'without an access type': { access_mode: WRITER },
  'without an access mode': { block: {} },
  'with access mode UNKNOWN': { block: {}, access_mode: { mode: 'UNKNOWN' } },
  'with an access mode of a later version': { block: {}, access_mode: { mode: 99 } },
  'that is empty': {},
};
for (const [label, capability] of Object.entries(broken)) {
  test(`a capability ${label} is INVALID_ARGUMENT`, async () => {
    const request = { ...createRequest('broken'), volume_capabilities: [capability] };
    await refused(create(request), 'INVALID_ARGUMENT', /^volume_capabilities\[0\]/);
  });
}

const unsupported: Readonly<Record<string, Message>> = {
  'access mode MULTI_NODE_READER_ONLY': blockCapability('MULTI_NODE_READER_ONLY'),
  'access mode MULTI_NODE_SINGLE_WRITER': blockCapability('MULTI_NODE_SINGLE_WRITER'),
  'access mode MULTI_NODE_MULTI_WRITER': blockCapability('MULTI_NODE_MULTI_WRITER'),
  'file system ntfs': mountCapability('ntfs'),
  'a file system named like an option': mountCapability('-t'),
  'a mount flag that is not listed': {
    mount: { fs_type: 'ext4', mount_flags: ['noatime', 'loop=/dev/loop0'] },
    access_mode: WRITER,
  },
  'a mount group, which is not advertised': {
    mount: { fs_type: 'ext4', volume_mount_group: '1000' },
    access_mode: WRITER,
  },
};
for (const [label, capability] of Object.entries(unsupported)) {
  test(`CV5: ${label} is INVALID_ARGUMENT, also after valid capabilities`, async () => {
    const list = [blockCapability(), capability];
    const request = { ...createRequest('unsupported'), volume_capabilities: list };
    await refused(create(request), 'INVALID_ARGUMENT', /^volume_capabilities\[1\]/);
  });
}

test('CV5: every single-node mode, block beside mount, and no file system type are accepted', async () => {
  const list = [
    blockCapability('SINGLE_NODE_READER_ONLY'),
    mountCapability(),
    blockCapability(),
    blockCapability('SINGLE_NODE_SINGLE_WRITER'),
    mountCapability('', 'SINGLE_NODE_MULTI_WRITER'),
  ];
  const request = {
    ...createRequest('served', { sizeBytes: 16 * MIB }),
    volume_capabilities: list,
  };
  const { volume } = await create(request);
  await running.client.controller.DeleteVolume({ volume_id: volume.volume_id });
});

test('CV24, CV26, CV28: the answer has an id, the size, an empty context and the topology of this node', async () => {
  const { volume } = await create(createRequest('answer'));
  assert.deepEqual(volume, {
    volume_id: volume.volume_id,
    capacity_bytes: String(8 * MIB),
    volume_context: {},
    content_source: null,
    accessible_topology: [{ segments: { 'blockdelta.csi/node': 'test-node' } }],
  });
  assert.ok(Buffer.byteLength(volume.volume_id) <= 128);
});

test('CV2: the same request again answers the same volume, also after a restart', async () => {
  const spec = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
  const first = await create(createRequest('replayed', spec));
  assert.deepEqual(await create(createRequest('replayed', spec)), first);
  await running.restart();
  assert.deepEqual(await create(createRequest('replayed', spec)), first);
});

test('G16: an optional field at its zero value counts as not set', async () => {
  const spec = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
  const plain = createRequest('zeros', spec);
  const first = await create(plain);
  const zeros = { mutable_parameters: {}, secrets: {}, parameters: {} };
  const capacity_range = { required_bytes: String(32 * MIB), limit_bytes: '0' };
  assert.deepEqual(await create({ ...plain, ...zeros, capacity_range }), first);
  const { controller } = running.client;
  const list = await controller.ListVolumes({});
  assert.deepEqual(await controller.ListVolumes({ max_entries: 0, starting_token: '' }), list);
});

test('CV2: a range that includes the size of the volume, no range, and capabilities in another order match', async () => {
  const capabilities = [blockCapability(), blockCapability('SINGLE_NODE_READER_ONLY')];
  const request = { ...createRequest('fitting'), volume_capabilities: capabilities };
  const first = await create(request);
  const ranges = [
    null,
    { required_bytes: MIB },
    { limit_bytes: 9 * MIB },
    { required_bytes: 8 * MIB, limit_bytes: 9 * MIB },
  ];
  for (const capacity_range of ranges) {
    assert.deepEqual(await create({ ...request, capacity_range }), first);
  }
  const turned = { ...request, volume_capabilities: capabilities.toReversed() };
  assert.deepEqual(await create(turned), first);
});

const taken: Readonly<Record<string, { field: RegExp; change: Message }>> = {
  'a smaller size': {
    field: /capacity_range/,
    change: { capacity_range: { required_bytes: 9 * MIB } },
  },
  'a larger size': {
    field: /capacity_range/,
    change: { capacity_range: { limit_bytes: 7 * MIB } },
  },
  'another access type': {
    field: /volume_capabilities/,
    change: { volume_capabilities: [mountCapability('ext4')] },
  },
  'another access mode': {
    field: /volume_capabilities/,
    change: { volume_capabilities: [blockCapability('SINGLE_NODE_READER_ONLY')] },
  },
  'fewer capabilities': {
    field: /volume_capabilities/,
    change: { volume_capabilities: [blockCapability(), mountCapability()] },
  },
  'other mutable parameters': {
    field: /mutable_parameters/,
    change: { mutable_parameters: { readAheadKiB: '64' } },
  },
  'other parameters': { field: /parameters/, change: { parameters: { pool: 'other' } } },
};
for (const [label, { field, change }] of Object.entries(taken)) {
  test(`CV3: a name taken by a volume with ${label} is ALREADY_EXISTS`, async () => {
    const request = createRequest('taken');
    const { volume } = await create(request);
    const message = await refused(create({ ...request, ...change }), 'ALREADY_EXISTS', field);
    assert.ok(message.includes(volume.volume_id), message);
  });
}

test('CV3: a name taken by a volume with another file system is ALREADY_EXISTS', async () => {
  const sizeBytes = 300 * MIB;
  const { volume } = await create(
    createRequest('file system', { capability: mountCapability('xfs'), sizeBytes }),
  );
  const other = createRequest('file system', { capability: mountCapability('ext4'), sizeBytes });
  await refused(create(other), 'ALREADY_EXISTS', /volume_capabilities/);
  await running.client.controller.DeleteVolume({ volume_id: volume.volume_id });
});

test('CV2, CV3: the parameters of the creation are compared, and no later modification', async () => {
  const request = { ...createRequest('modified'), mutable_parameters: { readAheadKiB: '64' } };
  const first = await create(request);
  const volume = orchestrator.hold('modified', first['volume']);
  await orchestrator.modify(volume, { readAheadKiB: '256' });
  assert.deepEqual(await create(request), first);
  const later = { ...request, mutable_parameters: { readAheadKiB: '256' } };
  await refused(create(later), 'ALREADY_EXISTS', /mutable_parameters/);
});

test('CV3: invalid values are INVALID_ARGUMENT even if the name is taken', async () => {
  await create(createRequest('taken'));
  const request = { ...createRequest('taken'), parameters: { size: '1' } };
  await refused(create(request), 'INVALID_ARGUMENT');
});

test('a name is free again once its volume is deleted', async () => {
  const first = await orchestrator.create('reused');
  await orchestrator.delete(first);
  const second = await orchestrator.create('reused', { sizeBytes: 16 * MIB });
  assert.notEqual(second.id, first.id);
  assert.equal(second.sizeBytes, 16 * MIB);
});

test('CV13: an unknown parameter is INVALID_ARGUMENT and named', async () => {
  const request = createRequest('parameter', { parameters: { pool: 'main', Pool: 'main' } });
  await refused(create(request), 'INVALID_ARGUMENT', /parameters\['Pool'\]/);
});

test('CV13: an unknown pool is INVALID_ARGUMENT and the known ones are named', async () => {
  const request = createRequest('pool', { parameters: { pool: 'none' } });
  await refused(create(request), 'INVALID_ARGUMENT', /'none'.*main, other/);
});

test('CV13: parameters that the Kubernetes provisioner adds are ignored', async () => {
  const parameters = { 'csi.storage.k8s.io/pvc/name': 'claim' };
  const first = await create(createRequest('kubernetes', { parameters }));
  assert.deepEqual(await create(createRequest('kubernetes')), first);
});

test('CV14, CV15: mutable parameters are accepted; an unknown key or value is INVALID_ARGUMENT', async () => {
  const spec = createRequest('mutable', { parameters: { readAheadKiB: '64' } });
  const { volume } = await create({ ...spec, mutable_parameters: { readAheadKiB: '256' } });
  await running.client.controller.DeleteVolume({ volume_id: volume.volume_id });
  for (const mutable_parameters of [
    { pool: 'main' },
    { readAheadKiB: '-1' },
    { readAheadKiB: '64', ioScheduler: 'cfq' },
  ]) {
    const call = create({ ...createRequest('mutable'), mutable_parameters });
    await refused(call, 'INVALID_ARGUMENT', /^mutable_parameters/);
  }
});

test('CV13: only options of mkfs and mount that are listed for the file system are accepted', async () => {
  const capability = mountCapability('ext4');
  const spec = (parameters: Record<string, string>) =>
    create(createRequest('options', { capability, parameters, sizeBytes: 16 * MIB }));
  for (const parameters of [
    { mkfsOptions: '-d /etc' },
    { mkfsOptions: '-m reflink=1' },
    { mountOptions: 'remount' },
    { mountOptions: 'loop=/dev/loop0' },
  ]) {
    const [name] = Object.keys(parameters);
    await refused(spec(parameters), 'INVALID_ARGUMENT', new RegExp(`^parameters\\['${name}'\\]`));
  }
  const { volume } = await spec({ mkfsOptions: '-m 1', mountOptions: 'noatime,errors=remount-ro' });
  await running.client.controller.DeleteVolume({ volume_id: volume.volume_id });
});

test('CV13: the message about an unknown parameter names all known ones', async () => {
  const request = createRequest('known', { parameters: { speed: 'high' } });
  const message = await refused(create(request), 'INVALID_ARGUMENT');
  for (const name of knownParameters()) assert.ok(message.includes(name), `${name}: ${message}`);
});
