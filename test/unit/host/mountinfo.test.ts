import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { test } from 'node:test';
import {
  isOfDevice,
  majorOf,
  minorOf,
  mountsAt,
  mountsOfDevice,
  parseMountInfo,
  readMountInfo,
} from '../../../src/host/mountinfo.js';

const FIXTURE = [
  '22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,errors=remount-ro',
  '30 22 0:6 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw,size=4k',
  '41 22 7:3 / /mnt/a\\040b\\011c\\012d\\134e\\043f ro,noatime shared:7 master:3 propagate_from:2 - xfs /dev/loop3 rw,nouuid',
  '42 22 7:3 /sub /mnt/two rw - xfs /dev/loop3 rw,nouuid',
  '43 22 0:6 /loop3 /mnt/node rw,relatime unbindable - devtmpfs devtmpfs rw,size=4k',
  '44 22 7:259 / /mnt/two/deep rw - ext4 /dev/loop259 ro',
  '45 22 0:50 / /mnt/empty rw - tmpfs  rw',
  '46 22 0:51 / /mnt/twofold rw - fuse.sshfs a:b rw',
  '',
].join('\n');

test('every field of a line is read, octal escapes and optional fields included', () => {
  const entry = parseMountInfo(FIXTURE)[2];
  assert.deepEqual(entry, {
    mountId: 41,
    parentId: 22,
    major: 7,
    minor: 3,
    device: { major: 7, minor: 3 },
    root: '/',
    mountPoint: '/mnt/a b\tc\nd\\e#f',
    options: ['ro', 'noatime'],
    peerGroup: 7,
    fsType: 'xfs',
    source: '/dev/loop3',
    superOptions: ['rw', 'nouuid'],
    readOnly: true,
    superReadOnly: false,
  });
});

test('a read-only file system is no read-only mount; a source may be empty, a type have a dot', () => {
  const [deep, empty, fuse] = parseMountInfo(FIXTURE).slice(-3);
  assert.deepEqual([deep?.readOnly, deep?.superReadOnly], [false, true]);
  assert.deepEqual([empty?.source, fuse?.fsType], ['', 'fuse.sshfs']);
});

test('a line of another form is an error, not a mount overlooked', () => {
  for (const line of [
    'no separator at all',
    '22 1 254:0 / / rw,relatime shared:1',
    '22 1 254 / / rw - ext4 /dev/vda rw',
    '22 1 254:0 / / rw - ext4 /dev/vda',
  ]) {
    assert.throws(() => parseMountInfo(`${line}\n`), /unknown form/, line);
  }
});

test('mounts are found by device number, minor numbers over 255 included', () => {
  const mounts = parseMountInfo(FIXTURE);
  const rdev = (7 << 8) | 3;
  assert.deepEqual(
    mountsOfDevice(mounts, rdev).map((entry) => entry.mountPoint),
    ['/mnt/a b\tc\nd\\e#f', '/mnt/two'],
  );
  const high = (7 << 8) | (259 & 0xff) | ((259 & ~0xff) << 12);
  assert.equal(majorOf(high), 7);
  assert.equal(minorOf(high), 259);
  assert.deepEqual(
    mountsOfDevice(mounts, high).map((entry) => entry.mountPoint),
    ['/mnt/two/deep'],
  );
});

test('the layers on one path come bottom first, whatever the order of the lines', () => {
  const lines = [
    '63 62 7:3 / /t rw - xfs /dev/loop3 rw',
    '61 22 7:1 / /t rw - xfs /dev/loop1 rw',
    '62 61 7:2 / /t rw - xfs /dev/loop2 rw',
  ];
  const order = mountsAt(parseMountInfo(lines.join('\n')), '/t').map((entry) => entry.mountId);
  assert.deepEqual(order, [61, 62, 63]);
  assert.deepEqual(mountsAt(parseMountInfo(lines.join('\n')), '/other'), []);
});

test('the real root is found by its device', async () => {
  const mounts = await readMountInfo();
  const root = mountsAt(mounts, '/').at(-1);
  assert.ok(root !== undefined);
  assert.ok(isOfDevice(root, (await stat('/')).dev) || root.major === 0);
});
