/** The line of a call in the log: what it shows of the request, and its level, which docs/logs.md explains. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import protobuf from 'protobufjs';
import { CsiError, type StatusCode } from '../../../src/base/errors.js';
import { packagePath } from '../../../src/base/package-root.js';
import { FAILURE_LEVELS, levelOfCall, ROUTINE_RPCS } from '../../../src/csi/log-levels.js';
import { csiMessage, csiProto } from '../../../src/csi/proto.js';
import { redact, STRIPPED } from '../../../src/csi/redact.js';

const SECRET = 'hunter2';
/** Sensitive fields that the proto does not mark. */
const UNMARKED = ['mount_flags', 'volume_context', 'publish_context'];

/** Every message type of the proto by its name relative to the package, nested ones too. */
function allTypes(
  namespace = csiProto().root.lookup('csi.v1') as protobuf.NamespaceBase,
): protobuf.Type[] {
  return namespace.nestedArray.flatMap((member) =>
    member instanceof protobuf.Type ? [member, ...allTypes(member)] : [],
  );
}

function isSecret(field: protobuf.Field): boolean {
  return field.options?.['(csi_secret)'] === true || UNMARKED.includes(field.name);
}

/** A message with every field set: secret values where the proto wants them, others harmless. */
function filled(type: protobuf.Type): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const field of type.fieldsArray) {
    field.resolve();
    message[field.name] = filledField(field);
  }
  return message;
}

function filledField(field: protobuf.Field): unknown {
  if (field.map) {
    return isSecret(field) ? { [`${SECRET}-key`]: `${SECRET}-value` } : { key: field.fullName };
  }
  let value: unknown = field.fullName;
  if (isSecret(field)) value = `password=${SECRET}`;
  else if (field.resolvedType instanceof protobuf.Type) value = filled(field.resolvedType);
  return field.repeated ? [value, value] : value;
}

/** How often a secret field occurs in `filled(type)`. */
function secretsIn(type: protobuf.Type): number {
  return type.fieldsArray.reduce((sum, field) => {
    if (isSecret(field)) return sum + 1;
    const { resolvedType } = field.resolve();
    if (!(resolvedType instanceof protobuf.Type)) return sum;
    return sum + (field.repeated ? 2 : 1) * secretsIn(resolvedType);
  }, 0);
}

test('no value or key of a secret field survives in any message', () => {
  let secrets = 0;
  for (const type of allTypes()) {
    const message = filled(type);
    const text = JSON.stringify(redact(type, message));
    assert.ok(!text.includes(SECRET), `${type.fullName}: ${text}`);
    assert.equal(text.split(JSON.stringify(STRIPPED)).length - 1, secretsIn(type), type.fullName);
    secrets += secretsIn(type);
  }
  assert.ok(secrets > 40, `only ${secrets} secret fields were filled`);
});

test('everything that is not secret is copied', () => {
  for (const type of allTypes()) {
    const copy = JSON.stringify(redact(type, filled(type)));
    const whole = JSON.stringify(filled(type), (key, value) =>
      key === 'secrets' || UNMARKED.includes(key) ? STRIPPED : value,
    );
    assert.equal(copy, whole, type.fullName);
  }
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

const text = readFileSync(packagePath('docs/logs.md'), 'utf8');
test('docs/logs.md has a row with the level and the reason for every status code', () => {
  const [, section = ''] = text.split('### Level by status');
  const rows = [...section.matchAll(/^\| `([A-Z_]+)` \| (\w+) \| .+ \|$/gm)];
  const found = Object.fromEntries(rows.map(([, code = '', level]) => [code, level]));
  assert.deepEqual(found, { OK: 'info', ...FAILURE_LEVELS });
  const unknown = new CsiError(15 as StatusCode, 'why');
  assert.equal(levelOfCall({ name: 'CreateVolume' }, unknown), 'error', 'a code without a row');
});

test('docs/logs.md names the RPCs whose successes are debug', () => {
  const [, list = ''] = text.split('Successes of these RPCs');
  const names = [...(list.split('.\n')[0] ?? '').matchAll(/`([A-Z]\w+)`/g)].map(([, name]) => name);
  assert.deepEqual(names, [...ROUTINE_RPCS]);
});
