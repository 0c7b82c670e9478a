import assert from 'node:assert/strict';
import { test } from 'node:test';
import protobuf from 'protobufjs';
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

test('a secret field is stripped whatever it holds', () => {
  for (const secrets of [{}, null, SECRET, [SECRET], { nested: { deep: SECRET } }]) {
    assert.deepEqual(redact(csiMessage('DeleteVolumeRequest'), { secrets }), { secrets: STRIPPED });
  }
});

test('a value of the wrong kind where a message with secrets belongs is stripped', () => {
  const message = { volume_capabilities: [SECRET], name: 'n' };
  assert.deepEqual(redact(csiMessage('CreateVolumeRequest'), message), {
    name: 'n',
    volume_capabilities: [STRIPPED],
  });
});

test('a field the proto does not know is left out of messages that can hold secrets', () => {
  const message = { volume_id: 'vol-1', password: SECRET };
  assert.deepEqual(redact(csiMessage('DeleteVolumeRequest'), message), { volume_id: 'vol-1' });
});

test('unset messages stay null and missing fields stay missing', () => {
  assert.deepEqual(redact(csiMessage('CreateVolumeRequest'), { capacity_range: null }), {
    capacity_range: null,
  });
  assert.deepEqual(
    redact(csiMessage('ControllerExpandVolumeRequest'), { volume_capability: null }),
    {
      volume_capability: null,
    },
  );
  assert.deepEqual(redact(csiMessage('ProbeRequest'), {}), {});
});

test('the copy shares nothing with the message, and the message keeps its secrets', () => {
  const message = {
    parameters: { a: '1' },
    capacity_range: { required_bytes: '1' },
    secrets: { token: SECRET },
  };
  const copy = redact(csiMessage('CreateVolumeRequest'), message) as typeof message;
  copy.parameters.a = '2';
  copy.capacity_range.required_bytes = '2';
  assert.deepEqual(message, {
    parameters: { a: '1' },
    capacity_range: { required_bytes: '1' },
    secrets: { token: SECRET },
  });
});

test('a map key named __proto__ is copied like any other', () => {
  const parameters = JSON.parse('{"__proto__": "a"}') as object;
  const copy = redact(csiMessage('CreateVolumeRequest'), { parameters }) as { parameters: object };
  assert.deepEqual(Object.entries(copy.parameters), [['__proto__', 'a']]);
});
