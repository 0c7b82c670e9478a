import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import {
  optionalString,
  parseBoolean,
  parseBytes,
  parseCapacityRange,
  parseInt32NonNegative,
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

test('a string may be 128 bytes long and no longer', () => {
  assert.equal(requireString('a'.repeat(128), 'volume_id'), 'a'.repeat(128));
  refuses(
    () => requireString('a'.repeat(129), 'volume_id'),
    'volume_id is 129 bytes long, the limit is 128',
  );
});

test('strings are measured in bytes of UTF-8, not in characters', () => {
  assert.equal(requireString('é'.repeat(64), 'name'), 'é'.repeat(64));
  refuses(() => requireString('é'.repeat(65), 'name'), 'name is 130 bytes long, the limit is 128');
  refuses(() => requireString('😀'.repeat(33), 'name'), 'name is 132 bytes long, the limit is 128');
});

test('a string limit can be set for a field', () => {
  const nodeId = 'n'.repeat(256);
  assert.equal(requireString(nodeId, 'node_id', { maxBytes: 256 }), nodeId);
  refuses(
    () => optionalString(`${nodeId}n`, 'node_id', { maxBytes: 256 }),
    'node_id is 257 bytes long, the limit is 256',
  );
});

test('a required string must be there, an optional one is empty', () => {
  refuses(() => requireString('', 'volume_id'), 'volume_id is required');
  refuses(() => requireString(undefined, 'volume_id'), 'volume_id is required');
  assert.equal(optionalString(undefined, 'snapshot_id'), '');
  assert.equal(optionalString(null, 'snapshot_id'), '');
  refuses(() => optionalString(7 as never, 'snapshot_id'), 'snapshot_id is not a string');
});

test('field parsing accepts an id that the plugin never issued', () => {
  for (const id of ['none-exist-id', '../../etc', 'a\0b', ' ']) {
    assert.equal(requireString(id, 'volume_id'), id);
  }
});

test('a name may hold any text that CSI does not ban', () => {
  for (const name of [
    '..',
    'a/b',
    'tab\tlf\ncr\r',
    '"quotes\' `',
    '  ',
    '😀 ü',
    '\u00a0',
    '\u200b',
  ]) {
    assert.equal(requireName(name, 'name'), name);
  }
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

test('a name is required and 128 bytes at most', () => {
  refuses(() => requireName('', 'name'), 'name is required');
  assert.equal(requireName('n'.repeat(128), 'name').length, 128);
  refuses(() => requireName('n'.repeat(129), 'name'), 'name is 129 bytes long, the limit is 128');
});

test('a path may be as long as the kernel takes', () => {
  const path = `/${'p'.repeat(4094)}`;
  assert.equal(parsePath(path, 'target_path'), path);
  refuses(
    () => parsePath(`${path}p`, 'target_path'),
    'target_path is 4096 bytes long, the limit is 4095',
  );
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

test('a map may hold 4 KiB of keys and values together', () => {
  const map = { a: 'v'.repeat(4000), bb: 'w'.repeat(93) };
  assert.deepEqual(parseMap(map, 'parameters'), map);
  refuses(
    () => parseMap({ ...map, c: '' }, 'parameters'),
    'parameters is 4097 bytes long, the limit is 4096',
  );
  refuses(() => parseMap({ aé: 'b' }, 'labels', 3), 'labels is 4 bytes long, the limit is 3');
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

test('the keys of secrets are letters, digits, dash, underscore and dot', () => {
  const secrets = { 'Key-1_x.y': 'any \0 value' };
  assert.deepEqual(parseSecrets(secrets), secrets);
  for (const key of ['', 'a b', 'a/b', 'ä', 'a\n']) {
    refuses(
      () => parseSecrets({ [key]: 'value' }),
      "secrets has a key with characters other than letters, digits and '-_.'",
    );
  }
});

test('no failure shows what a secret or a mount flag holds', () => {
  const secret = 'hunter2';
  const attempts = [
    () => parseSecrets({ [`${secret} key`]: secret }),
    () => parseSecrets({ key: secret.repeat(1000) }),
    () => parseSecrets(secret as never),
    () => parseVolumeCapability(mounted({ mount_flags: [secret.repeat(1000)] }), 'c'),
    () => parseVolumeCapability(mounted({ mount_flags: secret }), 'c'),
  ];
  for (const attempt of attempts) {
    assert.throws(attempt, (thrown) => !String((thrown as Error).message).includes(secret));
  }
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

test('bytes and counts are not negative', () => {
  assert.equal(parseBytes('0', 'size_bytes'), 0n);
  assert.equal(parseBytes('4096', 'size_bytes'), 4096n);
  refuses(() => parseBytes('-1', 'size_bytes'), 'size_bytes is negative: -1');
  assert.equal(parseInt32NonNegative(2147483647, 'max_entries'), 2147483647);
  assert.equal(parseInt32NonNegative(undefined, 'max_entries'), 0);
  refuses(() => parseInt32NonNegative(-1, 'max_entries'), 'max_entries is negative: -1');
  refuses(() => parseInt32NonNegative('1' as never, 'max_entries'), 'max_entries is not an int32');
});

test('a capacity range has at least one bound, and the bounds do not cross', () => {
  const parse = (required: string, limit: string) =>
    parseCapacityRange({ required_bytes: required, limit_bytes: limit }, 'capacity_range');
  assert.deepEqual(parse('10', '0'), { requiredBytes: 10n, limitBytes: 0n });
  assert.deepEqual(parse('0', '10'), { requiredBytes: 0n, limitBytes: 10n });
  assert.deepEqual(parse('10', '10'), { requiredBytes: 10n, limitBytes: 10n });
  refuses(() => parse('0', '0'), 'capacity_range sets neither required_bytes nor limit_bytes');
  refuses(() => parse('11', '10'), 'capacity_range.required_bytes 11 is over limit_bytes 10');
  refuses(() => parse('-1', '0'), 'capacity_range.required_bytes is negative: -1');
  refuses(() => parse('1', '-1'), 'capacity_range.limit_bytes is negative: -1');
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

test('mount flags may be 4 KiB together, the file system type 128 bytes', () => {
  const flags = ['f'.repeat(4000), 'g'.repeat(96)];
  const parsed = parseVolumeCapability(mounted({ mount_flags: flags }), 'c');
  assert.deepEqual(parsed.accessType === 'mount' && parsed.mountFlags, flags);
  refuses(
    () => parseVolumeCapability(mounted({ mount_flags: [...flags, 'h'] }), 'c'),
    'c.mount.mount_flags is 4097 bytes long, the limit is 4096',
  );
  refuses(
    () => parseVolumeCapability(mounted({ fs_type: 'x'.repeat(129) }), 'c'),
    'c.mount.fs_type is 129 bytes long, the limit is 128',
  );
  refuses(
    () => parseVolumeCapability(mounted({ volume_mount_group: 'x'.repeat(129) }), 'c'),
    'c.mount.volume_mount_group is 129 bytes long, the limit is 128',
  );
});

test('a list of capabilities is not empty, and a failure names the element', () => {
  assert.equal(parseVolumeCapabilities([BLOCK, mounted({})], 'volume_capabilities').length, 2);
  refuses(
    () => parseVolumeCapabilities([], 'volume_capabilities'),
    'volume_capabilities is required',
  );
  refuses(
    () => parseVolumeCapabilities([BLOCK, { block: {} }], 'volume_capabilities'),
    'volume_capabilities[1].access_mode is required',
  );
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
