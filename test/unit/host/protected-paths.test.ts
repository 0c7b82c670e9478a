/** Paths are judged by name and by mountinfo alone: nothing here is touched. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mountContaining, parseMountInfo } from '../../../src/host/mountinfo.js';
import { protectedReason } from '../../../src/host/protected-paths.js';

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
const PROTECTION = {
  trees: ['/var/lib/state', '/srv/pool'],
  directories: ['/var/lib/kubelet/plugins/blockdelta'],
};

const reasonOf = (path: string, resolved: string | null = path): string | null =>
  protectedReason(path, resolved, PROTECTION, MOUNTS);

test('directories of the system are protected, with what is in them or from being hidden', () => {
  const trees = ['/etc', '/etc/cron.deny', '/usr/lib/x', '/bin', '/boot/grub', '/dev/shm', '/sys'];
  for (const path of [...trees, '/proc/1/cwd', '/var/log/x']) {
    assert.match(reasonOf(path) ?? '', /^it lies in \//, path);
  }
  for (const path of ['/', '/var', '/var/lib', '/run', '/tmp', '/mnt', '/var/lib/kubelet']) {
    assert.match(reasonOf(path) ?? '', /^a mount there would hide \//, path);
  }
});

test('a tree of ours is protected by whatever name: a link, a bind mount of it or of a part', () => {
  for (const path of ['/srv/pool', '/srv/pool/volumes', '/var/lib/state/pools/default']) {
    assert.match(reasonOf(path) ?? '', /^it lies in/, path);
    assert.match(reasonOf('/mnt/link', path) ?? '', /^it lies in/, path);
  }
  for (const path of ['/mnt/volumes', '/mnt/volumes/x', '/mnt/state/pools', '/mnt/etc/cron.d']) {
    assert.match(reasonOf(path) ?? '', /by another name$/, path);
  }
  assert.match(reasonOf('/srv') ?? '', /would hide/);
  assert.match(reasonOf('/var/lib/kubelet/plugins') ?? '', /would hide/);
});

test('places of orchestrators may be used, also where a device node of ours is bound already', () => {
  for (const path of [
    '/var/lib/kubelet/plugins/kubernetes.io/csi/x/globalmount',
    '/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pvc/mount',
    ...['/data/kubelet/pods/block', '/tmp/csi-mount', '/mnt/x', '/var/run/csi/target'],
    ...['/etcetera/x', '/srv/pool2/x', '/mnt/no/such/parent'],
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
