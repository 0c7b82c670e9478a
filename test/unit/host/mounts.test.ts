/** What mountinfo says: which mounts there are, who sees them, and which paths nobody may mount on. */
import assert from 'node:assert/strict';
import { stat } from 'node:fs/promises';
import { test } from 'node:test';
import {
  isOfDevice,
  type MountEntry,
  majorOf,
  minorOf,
  mountContaining,
  mountsAt,
  mountsOfDevice,
  parseMountInfo,
  readMountInfo,
} from '../../../src/base/system/mountinfo.js';
import { isHidden, type Surroundings } from '../../../src/driver/host/propagation.js';
import { protectedReason } from '../../../src/driver/host/protected-paths.js';

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
    masterGroup: 3,
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

const KUBELET = '/var/lib/kubelet';

/** The mounts of a namespace whose mount ids begin at `firstId`, and the one of the kubelet's directory. */
function namespace(firstId: number, root: string, kubelet: string): MountEntry[] {
  return parseMountInfo(
    `${firstId} 1 254:0 / / rw ${root}- ext4 /dev/vda rw\n` +
      `${firstId + 1} ${firstId} 254:1 / ${KUBELET} rw ${kubelet}- xfs /dev/vdb rw\n`,
  );
}

function hidden(own: MountEntry[], around: Surroundings | null, mountPoint = KUBELET): boolean {
  const parent = own.find((entry) => entry.mountPoint === mountPoint);
  assert.ok(parent !== undefined);
  return isHidden(parent, own, around);
}

const host = namespace(20, '', '');
const sharedHost = namespace(20, 'shared:1 ', 'shared:2 ');

test('nothing has to be shared on the machine itself, unless a setting requires it', () => {
  const around = { initMounts: host, isInitialPidNamespace: true };
  assert.equal(hidden(host, around), false);
  assert.equal(hidden(host, null), true);
  assert.equal(hidden(sharedHost, null), false);
});

test('the mounts into a container with processes of its own have to be shared', () => {
  for (const [kubelet, expected] of [
    ['', true],
    ['master:2 ', true],
    ['shared:2 ', false],
    ['shared:9 master:2 ', false],
  ] as const) {
    const own = namespace(70, 'master:1 ', kubelet);
    const around = { initMounts: own, isInitialPidNamespace: false };
    assert.equal(hidden(own, around), expected, kubelet);
    assert.equal(hidden(own, around, '/'), false, 'the root of the container is its own');
  }
});

test("a service in another namespace than the machine's process 1 needs a peer group of its mounts", () => {
  const around = { initMounts: sharedHost, isInitialPidNamespace: true };
  assert.equal(hidden(namespace(70, 'shared:1 ', 'shared:2 '), around), false);
  assert.equal(hidden(namespace(70, '', ''), around), true);
  assert.equal(hidden(namespace(70, 'master:1 ', 'master:2 '), around), true);
  const systemd = namespace(70, 'shared:8 master:1 ', 'shared:9 master:2 ');
  assert.equal(hidden(systemd, around), true, 'shared among the processes of the service alone');
  assert.equal(hidden(namespace(70, '', ''), around, '/'), true);
});

test('a shared mount is trusted where the mounts of process 1 cannot be read', () => {
  const around = { initMounts: null, isInitialPidNamespace: true };
  assert.equal(hidden(namespace(70, '', 'shared:2 '), around), false);
  assert.equal(hidden(namespace(70, '', 'master:2 '), around), true);
});

const MOUNTS = parseMountInfo(
  [
    '22 1 254:0 / / rw - ext4 /dev/vda rw',
    '30 22 0:6 / /dev rw - devtmpfs devtmpfs rw',
    '40 22 8:1 / /srv/pool rw - xfs /dev/sda1 rw',
    '41 22 8:1 /volumes /mnt/volumes rw - xfs /dev/sda1 rw',
    '42 22 254:0 /etc /mnt/etc rw - ext4 /dev/vda rw',
    '43 22 254:0 /var/lib/state /mnt/state rw - ext4 /dev/vda rw',
    '44 22 0:6 /loop3 /data/kubelet/pods/block rw - devtmpfs devtmpfs rw',
    '45 22 0:50 / /mnt/hidden/deep rw - tmpfs one rw',
    '46 22 0:51 / /mnt/hidden rw - tmpfs two rw',
    '47 46 0:52 / /mnt/hidden rw - tmpfs three rw',
    '',
  ].join('\n'),
);
const PROTECTION = { trees: ['/var/lib/state', '/srv/pool'], directories: ['/var/lib/kubelet/plugins/blockdelta'] };

const reasonOf = (path: string, resolved: string | null = path): string | null =>
  protectedReason(path, resolved, PROTECTION, MOUNTS);

test('directories of the system are protected, by any name, with what is in them or from being hidden', () => {
  const trees = ['/etc', '/etc/cron.deny', '/usr/lib/x', '/bin', '/boot/grub', '/dev/shm', '/sys'];
  for (const path of [...trees, '/proc/1/cwd', '/var/log/x']) {
    assert.match(reasonOf(path) ?? '', /^it lies in \//, path);
  }
  for (const path of ['/', '/var', '/var/lib', '/run', '/tmp', '/mnt', '/var/lib/kubelet']) {
    assert.match(reasonOf(path) ?? '', /^a mount there would hide \//, path);
  }
  assert.match(reasonOf('/mnt/etc/cron.d') ?? '', /by another name$/);
});

test('places of orchestrators may be used, also where a device node of ours is bound already', () => {
  for (const path of [
    '/var/lib/kubelet/plugins/kubernetes.io/csi/x/globalmount',
    '/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pvc/mount',
    '/data/kubelet/pods/block',
    '/tmp/csi-mount',
    '/mnt/x',
    '/var/run/csi/target',
    '/etcetera/x',
    '/srv/pool2/x',
    '/mnt/no/such/parent',
  ]) {
    assert.equal(reasonOf(path), null, path);
  }
  assert.equal(reasonOf('/data/none/x', null), null);
});

test('the mount that contains a path is its top layer, and none that a later mount hides', () => {
  const idAt = (path: string): number | undefined => mountContaining(MOUNTS, path)?.mountId;
  assert.equal(idAt('/nowhere/at/all'), 22);
  assert.equal(idAt('/srv/pool/volumes'), 40);
  assert.equal(idAt('/srv/pool2'), 22);
  assert.equal(idAt('/mnt/hidden/deep/x'), 47);
  assert.equal(idAt('/mnt/hidden'), 47);
});
