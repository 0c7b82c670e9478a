import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import {
  optionalString,
  parseBoolean,
  parseCapacityRange,
  parseInt64,
  parseMap,
  parsePath,
  parseSecrets,
  parseVolumeCapabilities,
  parseVolumeCapability,
  requireAbsolutePath,
  requireFields,
  requireName,
  requirePresent,
  requireString,
} from '../../../src/csi/fields.js';
import { csiProto } from '../../../src/csi/proto.js';
import type { AccessMode } from '../../../src/domain/volume-capability.js';
import { received } from '../../support/received-request.js';

/** Asserts INVALID_ARGUMENT with exactly this message. */
function refuses(call: () => unknown, message: string): void {
  assert.throws(call, (thrown) => {
    assert.ok(thrown instanceof CsiError);
    assert.equal(thrown.code, StatusCode.INVALID_ARGUMENT);
    assert.equal(thrown.message, message);
    return true;
  });
}

const BLOCK = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } } as const;

function mounted(mount: object): object {
  return { mount, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
}

test('null, empty strings, lists and maps count as missing', () => {
  for (const missing of [undefined, null, '', [], {}]) {
    refuses(() => requirePresent(missing, 'volume_id'), 'volume_id is required');
  }
});

test('zero and false count as present', () => {
  for (const present of [0, false, '0', [''], { key: '' }]) requirePresent(present, 'field');
});

test('the first missing field in the order asked for is the one named', () => {
  const request = { volume_id: 'v', target_path: '', volume_capability: null };
  requireFields(request, 'volume_id');
  refuses(
    () => requireFields(request, 'volume_id', 'volume_capability', 'target_path'),
    'volume_capability is required',
  );
  const unknown: Record<string, unknown> = request;
  refuses(() => requireFields(unknown, 'no_such_field'), 'no_such_field is required');
});

test('a required string must be there, an optional one is empty', () => {
  refuses(() => requireString('', 'volume_id'), 'volume_id is required');
  refuses(() => requireString(undefined, 'volume_id'), 'volume_id is required');
  assert.equal(optionalString(undefined, 'snapshot_id'), '');
  assert.equal(optionalString(null, 'snapshot_id'), '');
  refuses(() => optionalString(7 as never, 'snapshot_id'), 'snapshot_id is not a string');
});

test('a name holds none of the banned control characters, wherever they stand', () => {
  const banned = [];
  for (let codePoint = 0; codePoint < 0x100; codePoint += 1) {
    const name = `a${String.fromCodePoint(codePoint)}b`;
    try {
      requireName(name, 'name');
    } catch {
      banned.push(codePoint);
    }
  }
  const range = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, index) => from + index);
  assert.deepEqual(banned, [
    ...range(0x00, 0x08),
    ...range(0x0b, 0x0c),
    ...range(0x0e, 0x1f),
    ...range(0x7f, 0x9f),
  ]);
  refuses(() => requireName('a\u0007', 'name'), 'name contains the control character U+0007');
  refuses(() => requireName('\u009f', 'name'), 'name contains the control character U+009F');
});

test('parsePath accepts any path that the kernel would accept', () => {
  for (const path of ['some/path', '', '../up', '/a/../b', '/', '/a\nb']) {
    assert.equal(parsePath(path, 'volume_path'), path);
  }
  refuses(() => parsePath('/a\0b', 'volume_path'), 'volume_path contains a NUL character');
});

test('an absolute path comes back without doubled or trailing slashes and dots', () => {
  for (const path of ['/a/b', '/a//b', '/a/b/', '/a/./b', '//a/b/.', '/./a/b//']) {
    assert.equal(requireAbsolutePath(path, 'target_path'), '/a/b');
  }
  assert.equal(requireAbsolutePath('/a/..b/...', 'target_path'), '/a/..b/...');
});

test('relative paths, the root and parent segments are refused', () => {
  for (const path of ['', 'some/path', './a', '~/a']) {
    refuses(() => requireAbsolutePath(path, 'target_path'), 'target_path is not an absolute path');
  }
  for (const path of ['/..', '/a/../b', '/a/..', '/../a']) {
    refuses(() => requireAbsolutePath(path, 'target_path'), "target_path contains a '..' segment");
  }
  for (const path of ['/', '//', '/.', '/./']) {
    refuses(() => requireAbsolutePath(path, 'target_path'), 'target_path is the root directory');
  }
});

test('a map is copied, a missing one is empty, and every value is a string', () => {
  const map = { a: '1' };
  const parsed = parseMap(map, 'parameters');
  map.a = '2';
  assert.deepEqual(parsed, { a: '1' });
  assert.deepEqual(parseMap(undefined, 'parameters'), {});
  assert.deepEqual(parseMap(null, 'parameters'), {});
  refuses(
    () => parseMap({ a: 1 } as never, 'parameters'),
    'parameters holds a value that is not a string',
  );
  refuses(() => parseMap('a' as never, 'parameters'), 'parameters is not a message');
});

test('a map key named __proto__ is a key like any other', () => {
  const parsed = parseMap(JSON.parse('{"__proto__": "a"}'), 'parameters');
  assert.deepEqual(Object.entries(parsed), [['__proto__', 'a']]);
});

test('a flag is a bool and false when it is missing', () => {
  assert.equal(parseBoolean(true, 'readonly'), true);
  assert.equal(parseBoolean(undefined, 'readonly'), false);
  refuses(() => parseBoolean('true' as never, 'readonly'), 'readonly is not a bool');
});

test('an int64 keeps its full precision', () => {
  assert.equal(parseInt64('9223372036854775807', 'x'), 9223372036854775807n);
  assert.equal(parseInt64('-9223372036854775808', 'x'), -9223372036854775808n);
  assert.equal(parseInt64(undefined, 'x'), 0n);
  for (const value of ['', '1.5', '0x10', ' 1', 'a', 1]) {
    refuses(() => parseInt64(value as never, 'starting_offset'), 'starting_offset is not an int64');
  }
});

test('a missing capacity range is null', () => {
  assert.equal(parseCapacityRange(null, 'capacity_range'), null);
  assert.equal(parseCapacityRange(undefined, 'capacity_range'), null);
});

test('a block capability is parsed', () => {
  assert.deepEqual(parseVolumeCapability(BLOCK, 'volume_capability'), {
    accessType: 'block',
    accessMode: 'SINGLE_NODE_WRITER',
  });
});

test('a mount capability is parsed, with or without its optional fields', () => {
  const mount = { fs_type: 'xfs', mount_flags: ['noatime', 'ro'], volume_mount_group: '1000' };
  assert.deepEqual(parseVolumeCapability(mounted(mount), 'volume_capability'), {
    accessType: 'mount',
    accessMode: 'SINGLE_NODE_WRITER',
    fsType: 'xfs',
    mountFlags: ['noatime', 'ro'],
    volumeMountGroup: '1000',
  });
  assert.deepEqual(parseVolumeCapability(mounted({}), 'volume_capability'), {
    accessType: 'mount',
    accessMode: 'SINGLE_NODE_WRITER',
    fsType: '',
    mountFlags: [],
    volumeMountGroup: '',
  });
});

test('a capability names its access type and a known access mode', () => {
  const parse = (capability: unknown) => () => parseVolumeCapability(capability as never, 'c');
  const { access_mode } = BLOCK;
  refuses(parse(null), 'c is required');
  refuses(parse({ access_mode }), 'c must set exactly one of block and mount');
  refuses(
    parse({ block: {}, mount: {}, access_mode }),
    'c must set exactly one of block and mount',
  );
  refuses(parse({ block: {} }), 'c.access_mode is required');
  refuses(parse({ block: {}, access_mode: null }), 'c.access_mode is required');
  refuses(parse({ block: {}, access_mode: { mode: 'UNKNOWN' } }), 'c.access_mode.mode is required');
  refuses(
    parse({ block: {}, access_mode: { mode: 99 } }),
    'c.access_mode.mode 99 is not known to this plugin',
  );
});

test('the access modes that are accepted are those of the proto', () => {
  const { values } = csiProto().root.lookupEnum('csi.v1.VolumeCapability.AccessMode.Mode');
  for (const mode of Object.keys(values).filter((name) => name !== 'UNKNOWN')) {
    const parsed = parseVolumeCapability(
      { block: {}, access_mode: { mode: mode as AccessMode } },
      'c',
    );
    assert.equal(parsed.accessMode, mode);
  }
});

test('what the decoder gives for a request can be parsed as it is', () => {
  const decode = (fields: object) => received('CreateVolume', fields);
  const request = decode({
    name: 'pvc-1',
    capacity_range: { required_bytes: '1073741824' },
    volume_capabilities: [mounted({ fs_type: 'ext4' })],
    secrets: { key: 'value' },
  });
  assert.equal(requireName(request.name, 'name'), 'pvc-1');
  assert.deepEqual(parseCapacityRange(request.capacity_range, 'capacity_range'), {
    requiredBytes: 1073741824n,
    limitBytes: 0n,
  });
  const [capability] = parseVolumeCapabilities(request.volume_capabilities, 'volume_capabilities');
  assert.equal(capability.accessType === 'mount' && capability.fsType, 'ext4');
  assert.deepEqual(parseSecrets(request.secrets), { key: 'value' });
  assert.deepEqual(parseMap(request.parameters, 'parameters'), {});
  refuses(() => requireFields(decode({}), 'name', 'volume_capabilities'), 'name is required');
  refuses(
    () =>
      parseVolumeCapability(
        decode({ volume_capabilities: [{ mount: {} }] }).volume_capabilities[0],
        'c',
      ),
    'c.access_mode is required',
  );
});
