import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { CONVERSION, clientServices, csiProto, servedServices } from '../../../src/base/csi/proto.js';
import { checkoutText } from '../../support/checkout-text.js';
import { received } from '../../support/received-request.js';
import { CSI_PROTO, rootWithComments } from '../../support/request-fields.js';
import { assertSame, type Description, describe } from './proto-description.js';

const descriptor = JSON.parse(checkoutText('test/fixtures/csi-descriptor-superset.json')) as Description;

test('the proto holds every service, rpc, message, field and value of the descriptor, and no other', () => {
  const description = describe(rootWithComments());
  assertSame(description, descriptor);
  const spoilt = CSI_PROTO.replace('group_snapshot_id = 6;', 'group_snapshot_id = 8;');
  assert.throws(() => assertSame(describe(rootWithComments(spoilt)), descriptor), /number: 8/);
  assert.equal(Object.keys(description.services).length, 5);
  assert.equal(Object.keys(description.messages).length, 105);
  assert.equal(Object.keys(description.enums).length, 10);
});

test('the proto that the plugin loads is the same as the one compared with the descriptor', () => {
  // Comments are not kept there, so nothing is known to be removed.
  const withoutRemovals = JSON.parse(JSON.stringify(descriptor), (key, value) =>
    key === 'removedIn' ? undefined : value,
  ) as Description;
  assertSame(describe(csiProto().root), withoutRemovals);
});

test('types are generated with the options of the decoder', () => {
  const script = checkoutText('scripts/generate-types');
  const flags = Object.entries(CONVERSION).map(([name, value]) =>
    value === true ? `--${name}` : `--${name}=${(value as { name: string }).name}`,
  );
  assert.ok(script.includes(` ${flags.join(' ')} `), flags.join(' '));
});

test('the options have the extension numbers that other CSI code uses', () => {
  const expected = {
    csi_secret: ['.google.protobuf.FieldOptions', 1059],
    alpha_field: ['.google.protobuf.FieldOptions', 1060],
    alpha_enum: ['.google.protobuf.EnumOptions', 1060],
    alpha_enum_value: ['.google.protobuf.EnumValueOptions', 1060],
    alpha_message: ['.google.protobuf.MessageOptions', 1060],
    alpha_method: ['.google.protobuf.MethodOptions', 1060],
    alpha_service: ['.google.protobuf.ServiceOptions', 1060],
  };
  const names = csiProto().root.lookup('csi.v1') as protobuf.Namespace;
  const extensions = names.nestedArray.filter((member) => member instanceof protobuf.Field);
  const found = extensions.map((field) => [field.name, [`.${field.extend?.replace(/^\./, '')}`, field.id]]);
  assert.deepEqual(Object.fromEntries(found), expected);
});

test('the server decodes int64 and unknown enum values exactly, and fills in what is unset', () => {
  const capacity_range = { required_bytes: '9007199254740993', limit_bytes: '9223372036854775807' };
  const capability = (mode: number) => ({ block: {}, access_mode: { mode } });
  const request = received('CreateVolume', {
    capacity_range,
    volume_capabilities: [capability(1), capability(99), { block: {} }],
    parameters: JSON.parse('{"__proto__": "a"}'),
  });
  const block = { block: {}, access_type: 'block' };
  assert.deepEqual(
    { ...request, parameters: Object.entries(request.parameters) },
    {
      name: '',
      capacity_range,
      parameters: [['__proto__', 'a']],
      secrets: {},
      volume_capabilities: [
        { ...block, access_mode: { mode: 'SINGLE_NODE_WRITER' } },
        { ...block, access_mode: { mode: 99 } },
        { ...block, access_mode: null },
      ],
      volume_content_source: null,
      accessibility_requirements: null,
      mutable_parameters: {},
    },
  );
});

test('the server sends the bytes of a metadata message as they are', () => {
  const client = clientServices().SnapshotMetadata;
  for (const rpc of ['GetMetadataAllocated', 'GetMetadataDelta']) {
    const message = {
      block_metadata_type: 'VARIABLE_LENGTH',
      volume_capacity_bytes: '1073741824',
      block_metadata: [{ byte_offset: '4096', size_bytes: '8192' }],
    };
    const bytes = client[rpc]?.responseSerialize(message);
    assert.ok(bytes);
    const served = servedServices().SnapshotMetadata[rpc];
    assert.equal(served?.responseSerialize(bytes), bytes);
    assert.deepEqual(client[rpc]?.responseDeserialize(bytes), message);
    assert.notEqual(client[rpc]?.responseSerialize, served?.responseSerialize);
  }
});
