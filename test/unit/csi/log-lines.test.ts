/** The line of a call in the log: what it shows of the request, and its level, which docs/logs.md explains. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { csiMessage, csiProto } from '../../../src/base/csi/proto.js';
import { CsiError, type StatusCode } from '../../../src/base/errors.js';
import { levelOfCall, ROUTINE_RPCS } from '../../../src/server/calls/log-levels.js';
import { redact, STRIPPED } from '../../../src/server/calls/redact.js';
import { checkoutText } from '../../support/checkout-text.js';

const SECRET = 'hunter2';
/** Sensitive fields that the proto does not mark. */
const UNMARKED = ['mount_flags', 'volume_context', 'publish_context'];

/** Every message type of the proto by its name relative to the package, nested ones too. */
function allTypes(namespace = csiProto().root.lookup('csi.v1') as protobuf.NamespaceBase): protobuf.Type[] {
  return namespace.nestedArray.flatMap((member) =>
    member instanceof protobuf.Type ? [member, ...allTypes(member)] : [],
  );
}

function isSecret(field: protobuf.Field): boolean {
  return field.options?.['(csi_secret)'] === true || UNMARKED.includes(field.name);
}

/** A message with every field set: secret ones to what is given for them, texts to the name of their field. */
function filled(type: protobuf.Type, secretOf: (field: protobuf.Field) => unknown): object {
  const valueFor = (field: protobuf.Field): unknown => {
    if (isSecret(field)) return secretOf(field);
    const { resolvedType, fullName } = field.resolve();
    if (field.map) return { key: fullName };
    const value = resolvedType instanceof protobuf.Type ? filled(resolvedType, secretOf) : fullName;
    return field.repeated ? [value, value] : value;
  };
  return Object.fromEntries(type.fieldsArray.map((field) => [field.name, valueFor(field)]));
}

test('no value or key of a secret field survives in any message, and all else is copied', () => {
  let secrets = 0;
  const secretOf = (field: protobuf.Field): unknown => {
    secrets += 1;
    if (field.map) return { [`${SECRET}-key`]: `${SECRET}-value` };
    return field.repeated ? [SECRET, SECRET] : SECRET;
  };
  for (const type of allTypes()) {
    const wanted = filled(type, () => STRIPPED);
    assert.deepEqual(redact(type, filled(type, secretOf)), wanted, type.fullName);
  }
  assert.ok(secrets > 40, `only ${secrets} secret fields were filled`);
});

test('what is stripped, left out or kept does not depend on what a field holds', () => {
  const { volume_id, ...secret } = { volume_id: 'vol-1', password: SECRET };
  const rows: [string, object, object][] = [
    ['ProbeRequest', {}, {}],
    ['CreateVolumeRequest', { capacity_range: null }, { capacity_range: null }],
    ['DeleteVolumeRequest', { volume_id, ...secret }, { volume_id }],
    // Of the wrong kind.
    ['CreateVolumeRequest', { volume_capabilities: [SECRET] }, { volume_capabilities: [STRIPPED] }],
  ];
  for (const secrets of [{}, null, SECRET, [SECRET], { nested: { deep: SECRET } }]) {
    rows.push(['DeleteVolumeRequest', { secrets }, { secrets: STRIPPED }]);
  }
  for (const [type, message, wanted] of rows) {
    assert.deepEqual(redact(csiMessage(type), message), wanted);
  }
});

test('the copy shares nothing with the message, and a key named __proto__ is one like any other', () => {
  const message = {
    parameters: JSON.parse('{"__proto__": "a", "a": "1"}') as Record<string, string>,
    capacity_range: { required_bytes: '1' },
    secrets: { token: SECRET },
  };
  const before = structuredClone(message);
  const copy = redact(csiMessage('CreateVolumeRequest'), message) as typeof message;
  assert.deepEqual(Object.entries(copy.parameters), Object.entries(message.parameters));
  copy.parameters['a'] = '2';
  copy.capacity_range.required_bytes = '2';
  assert.deepEqual(message, before);
});

test('a code that the table of levels lacks is an error', () => {
  assert.equal(levelOfCall({ name: 'CreateVolume' }, new CsiError(15 as StatusCode, 'why')), 'error');
});

test('docs/logs.md names the RPCs whose successes are debug', () => {
  const [, list = ''] = checkoutText('docs/logs.md').split('Successes are logged');
  const names = [...(list.split('.\n')[0] ?? '').matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => name);
  assert.deepEqual(names, [...ROUTINE_RPCS]);
});
