/** What a field must be, and the words in which a wrong one is refused. test/memory asks every field of every RPC. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  optionalString,
  parseBoolean,
  parseCapacityRange,
  parseInt64,
  parseMap,
  parsePath,
  parseVolumeCapability,
  requireAbsolutePath,
  requireFields,
  requireName,
  requirePresent,
  requireString,
} from '../../../src/base/csi/fields.js';
import { csiProto } from '../../../src/base/csi/proto.js';
import { CsiError, StatusCode } from '../../../src/base/errors.js';

const access_mode = { mode: 'SINGLE_NODE_WRITER' };
const capabilityOf = (capability: unknown) => parseVolumeCapability(capability as never, 'c');

test('null, empty strings, lists and maps count as missing, zero and false as present', () => {
  for (const missing of [undefined, null, '', [], {}]) {
    assert.throws(() => requirePresent(missing, 'volume_id'), { message: 'volume_id is required' });
  }
  for (const present of [0, false, '0', [''], { key: '' }]) requirePresent(present, 'field');
  assert.equal(optionalString(null, 'snapshot_id'), '');
  assert.deepEqual(parseMap(null, 'parameters'), {});
  assert.equal(parseBoolean(undefined, 'readonly'), false);
  assert.equal(parseInt64(undefined, 'x'), 0n);
  assert.equal(parseCapacityRange(undefined, 'capacity_range'), null);
});

const request: Record<string, unknown> = { volume_id: 'v', target_path: '', capability: null };
const WRONG: readonly [message: string, ...calls: (() => unknown)[]][] = [
  [
    'capability is required',
    () => requireFields(request, 'volume_id', 'capability', 'target_path'),
    () => requireString('', 'capability'),
    () => requireString(undefined, 'capability'),
  ],
  ['snapshot_id is not a string', () => optionalString(7 as never, 'snapshot_id')],
  ['name contains the control character U+0007', () => requireName('a\u0007', 'name')],
  ['name contains the control character U+009F', () => requireName('\u009f', 'name')],
  ['path contains a NUL character', () => parsePath('/a\0b', 'path')],
  [
    'path is not an absolute path',
    ...['', 'some/path', './a', '~/a'].map((path) => () => requireAbsolutePath(path, 'path')),
  ],
  [
    "path contains a '..' segment",
    ...['/..', '/a/../b', '/a/..', '/../a'].map((path) => () => requireAbsolutePath(path, 'path')),
  ],
  ['path is the root directory', ...['/', '//', '/.', '/./'].map((path) => () => requireAbsolutePath(path, 'path'))],
  ['p holds a value that is not a string', () => parseMap({ a: 1 } as never, 'p')],
  ['p is not a message', () => parseMap('a' as never, 'p')],
  ['readonly is not a bool', () => parseBoolean('true' as never, 'readonly')],
  ['x is not an int64', ...['', '1.5', '0x10', ' 1', 'a', 1].map((value) => () => parseInt64(value as never, 'x'))],
  ['c is required', () => capabilityOf(null)],
  [
    'c must set exactly one of block and mount',
    () => capabilityOf({ access_mode }),
    () => capabilityOf({ block: {}, mount: {}, access_mode }),
  ],
  [
    'c.access_mode is required',
    () => capabilityOf({ block: {} }),
    () => capabilityOf({ block: {}, access_mode: null }),
  ],
  ['c.access_mode.mode is required', () => capabilityOf({ block: {}, access_mode: { mode: 'UNKNOWN' } })],
  ['c.access_mode.mode 99 is not known to this plugin', () => capabilityOf({ block: {}, access_mode: { mode: 99 } })],
];

test('what is wrong is INVALID_ARGUMENT, and said with the name of the field', () => {
  for (const [message, ...calls] of WRONG) {
    for (const call of calls) {
      assert.throws(call, (thrown) => {
        assert.ok(thrown instanceof CsiError);
        assert.deepEqual([thrown.code, thrown.message], [StatusCode.INVALID_ARGUMENT, message]);
        return true;
      });
    }
  }
});

test('a path is any that the kernel takes, an absolute one comes back in its shortest form', () => {
  for (const path of ['some/path', '', '../up', '/a/../b', '/', '/a\nb']) {
    assert.equal(parsePath(path, 'volume_path'), path);
  }
  for (const path of ['/a/b', '/a//b', '/a/b/', '/a/./b', '//a/b/.', '/./a/b//']) {
    assert.equal(requireAbsolutePath(path, 'target_path'), '/a/b');
  }
  assert.equal(requireAbsolutePath('/a/..b/...', 'target_path'), '/a/..b/...');
});

test('a map is copied, and a key named __proto__ is a key like any other', () => {
  const map = JSON.parse('{"__proto__": "a", "b": "c"}') as Record<string, string>;
  const parsed = parseMap(map, 'parameters');
  map['b'] = 'd';
  assert.deepEqual(Object.entries(parsed), [
    ['__proto__', 'a'],
    ['b', 'c'],
  ]);
});

test('an int64 keeps its full precision', () => {
  for (const text of ['9223372036854775807', '-9223372036854775808']) {
    assert.equal(parseInt64(text, 'x'), BigInt(text));
  }
});

test('a capability is parsed, a mount with or without its optional fields, in every mode of the proto', () => {
  const mount = { fs_type: 'xfs', mount_flags: ['noatime', 'ro'], volume_mount_group: '1000' };
  const common = { accessType: 'mount', accessMode: 'SINGLE_NODE_WRITER' };
  assert.deepEqual(capabilityOf({ mount, access_mode }), {
    ...common,
    fsType: 'xfs',
    mountFlags: ['noatime', 'ro'],
    volumeMountGroup: '1000',
  });
  assert.deepEqual(capabilityOf({ mount: {}, access_mode }), {
    ...common,
    fsType: '',
    mountFlags: [],
    volumeMountGroup: '',
  });
  const { values } = csiProto().root.lookupEnum('csi.v1.VolumeCapability.AccessMode.Mode');
  for (const mode of Object.keys(values).filter((name) => name !== 'UNKNOWN')) {
    const parsed = capabilityOf({ block: {}, access_mode: { mode } });
    assert.deepEqual(parsed, { accessType: 'block', accessMode: mode });
  }
});
