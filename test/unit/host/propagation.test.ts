import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type MountEntry, parseMountInfo } from '../../../src/host/mountinfo.js';
import { isHidden, type Surroundings } from '../../../src/host/propagation.js';

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

test('on the machine itself nothing has to be shared, unless a setting requires it', () => {
  const around = { initMounts: host, isInitialPidNamespace: true };
  assert.equal(hidden(host, around), false);
  assert.equal(hidden(host, null), true);
  assert.equal(hidden(sharedHost, null), false);
});

test('in a container with processes of its own, what is mounted into it has to be shared', () => {
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

test('where the mounts of process 1 cannot be read, a shared mount is trusted', () => {
  const around = { initMounts: null, isInitialPidNamespace: true };
  assert.equal(hidden(namespace(70, '', 'shared:2 '), around), false);
  assert.equal(hidden(namespace(70, '', 'master:2 '), around), true);
});
