/** ValidateVolumeCapabilities: what is confirmed, and what is refused with a message. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as grpc from '@grpc/grpc-js';
import { csiProto } from '../../src/csi/proto.js';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';

const running = runMemoryPlugin('validate', {
  pools: ['main'],
  prepare: async ({ orchestrator }) => {
    const volume = await orchestrator.create('validated', { sizeBytes: 16 * MIB });
    volumeId = volume.id;
  },
});
const validate = (request: Message): Promise<Message> =>
  running.client.controller.ValidateVolumeCapabilities(request);
const capabilities = [mountCapability('ext4'), blockCapability()];
let volumeId = '';

test('VV3, VV7: supported capabilities are confirmed, the same way each time', async () => {
  const request = { volume_id: volumeId, volume_capabilities: capabilities };
  const answer = await validate(request);
  assert.equal(answer['message'], '');
  const [mount, block] = answer['confirmed'].volume_capabilities;
  assert.equal(mount.mount.fs_type, 'ext4');
  assert.equal(mount.access_mode.mode, 'SINGLE_NODE_WRITER');
  assert.deepEqual(block.block, {});
  assert.deepEqual(answer['confirmed'].volume_context, {});
  assert.deepEqual(answer['confirmed'].parameters, {});
  assert.deepEqual(await validate(request), answer);
});

const unsupported: Readonly<Record<string, Message>> = {
  'a multi-node access mode': blockCapability('MULTI_NODE_MULTI_WRITER'),
  'a file system that is not served': mountCapability('zfs'),
  'a very long file system type': mountCapability('f'.repeat(128)),
  'a mount flag that is not listed': {
    mount: { fs_type: 'ext4', mount_flags: ['bind'] },
    access_mode: { mode: 'SINGLE_NODE_WRITER' },
  },
  'a mount group': {
    mount: { volume_mount_group: '1000' },
    access_mode: { mode: 'SINGLE_NODE_WRITER' },
  },
};
for (const [label, capability] of Object.entries(unsupported)) {
  test(`VV4: ${label} is not confirmed and the message, of 128 bytes at most, says why`, async () => {
    const volume_capabilities = [blockCapability(), capability];
    const answer = await validate({ volume_id: volumeId, volume_capabilities });
    assert.equal(answer['confirmed'], null);
    assert.notEqual(answer['message'], '');
    assert.ok(Buffer.byteLength(answer['message']) <= 128, answer['message']);
  });
}

test('VV4: the message has 128 bytes at most also where values have many bytes a character', async () => {
  for (const fsType of ['🗄'.repeat(32), '€'.repeat(42)]) {
    const volume_capabilities = [mountCapability(fsType)];
    const answer = await validate({ volume_id: volumeId, volume_capabilities });
    assert.equal(answer['confirmed'], null);
    assert.ok(Buffer.byteLength(answer['message']) <= 128, answer['message']);
    assert.doesNotMatch(answer['message'], /\ufffd/);
  }
  const volume_context = { ['🗄'.repeat(100)]: '' };
  const foreign = await validate({
    volume_id: volumeId,
    volume_capabilities: capabilities,
    volume_context,
  });
  assert.equal(foreign['confirmed'], null);
  assert.ok(Buffer.byteLength(foreign['message']) <= 128, foreign['message']);
});

test('VV5: a volume context of another volume is not confirmed', async () => {
  const volume_context = { key: 'value' };
  const request = { volume_id: volumeId, volume_capabilities: capabilities, volume_context };
  const answer = await validate(request);
  assert.equal(answer['confirmed'], null);
  assert.match(answer['message'], /volume_context/);
});

test('a capability of unknown form is INVALID_ARGUMENT', async () => {
  for (const capability of [{ block: {} }, { access_mode: { mode: 'SINGLE_NODE_WRITER' } }]) {
    const call = validate({ volume_id: volumeId, volume_capabilities: [capability] });
    await refused(call, 'INVALID_ARGUMENT', /^volume_capabilities\[0\]/);
  }
});

test('VV6: fields of a later version are not echoed as confirmed', async () => {
  const root = csiProto().root;
  const requestType = root.lookupType('csi.v1.ValidateVolumeCapabilitiesRequest');
  const capabilityType = root.lookupType('csi.v1.VolumeCapability');
  const capability = capabilityType.encode({ block: {}, access_mode: { mode: 1 } }).finish();
  // Field 99, a varint of 1: unknown to every version so far.
  const newer = Buffer.concat([capability, Buffer.from([0x98, 0x06, 0x01])]);
  const listed = Buffer.concat([Buffer.from([0x1a, newer.length]), newer]);
  const request = Buffer.concat([requestType.encode({ volume_id: volumeId }).finish(), listed]);
  const answer = await rawCall(running.endpoint, request);
  assert.ok(answer.includes(Buffer.from(capability)), 'the known fields are confirmed');
  assert.ok(!answer.includes(newer), 'the unknown field is confirmed');
});

function rawCall(endpoint: string, request: Buffer): Promise<Buffer> {
  const client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
  });
  const same = (bytes: Buffer): Buffer => bytes;
  return new Promise<Buffer>((resolve, reject) => {
    const method = '/csi.v1.Controller/ValidateVolumeCapabilities';
    client.makeUnaryRequest(method, same, same, request, (error, answer) => {
      client.close();
      if (error === null && answer !== undefined) resolve(answer);
      else reject(error);
    });
  });
}
