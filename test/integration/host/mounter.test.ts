import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, symlinkSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { mountOptions } from '../../../src/host/filesystem.js';
import { setLayerFlags } from '../../../src/host/layers.js';
import { isMountPoint, topMount } from '../../../src/host/mounter.js';
import { isOfDevice } from '../../../src/host/mountinfo.js';
import { NativePool } from '../../../src/native/pool.js';
import { rejectsWith } from '../../support/expect-status.js';
import { mount, unmount } from '../../support/mounts.js';
import { mountsBelow, skipUnlessRoot, Workspace } from '../../support/workspace.js';

/** An empty file system on a loop device. */
function makeDevice(workspace: Workspace, name: string, mkfs: string): string {
  const image = workspace.path(name);
  execFileSync('truncate', ['-s', '320M', image]);
  execFileSync(mkfs, ['-q', image], { stdio: 'pipe' });
  return execFileSync('losetup', ['--show', '-f', image], { encoding: 'utf8' }).trim();
}

const rootTest = (title: string, body: () => Promise<void>): void => {
  test(title, { skip: skipUnlessRoot }, body);
};

let workspace: Workspace;
let xfs = '';
let ext4 = '';
before(() => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('mounter');
  xfs = makeDevice(workspace, 'xfs', 'mkfs.xfs');
  ext4 = makeDevice(workspace, 'ext4', 'mkfs.ext4');
});
after(() => workspace?.dispose());

const directory = (name: string): string => {
  mkdirSync(workspace.path(name), { recursive: true });
  return workspace.path(name);
};
const layers = (path: string): number =>
  mountsBelow(workspace.directory).filter((found) => found === path).length;

rootTest('a repeated mount is one mount, and a repeated unmount succeeds', async () => {
  const target = directory('staging one');
  const request = {
    source: xfs,
    target,
    fsType: 'xfs',
    options: mountOptions('xfs', ['noatime,nodev'], false),
  };
  await mount(request);
  await mount(request);
  assert.equal(layers(target), 1);
  const top = await topMount(target);
  assert.ok(top?.superOptions.includes('nouuid'));
  assert.ok(top?.options.includes('noatime') && top.options.includes('nodev'));
  await unmount(target);
  await unmount(target);
  assert.equal(await isMountPoint(target), false);
});

rootTest(
  'the error of a failed mount names the device and the target, and not the options',
  async () => {
    const target = directory('failing');
    const options = ['context=tiger'];
    await assert.rejects(mount({ source: ext4, target, fsType: 'xfs', options }), (thrown) => {
      assert.ok(thrown instanceof Error);
      assert.match(thrown.message, /failing/);
      assert.match(thrown.message, new RegExp(ext4));
      assert.doesNotMatch(thrown.message, /tiger/);
      return true;
    });
    assert.equal(await isMountPoint(target), false);
  },
);

rootTest('the value of an option that the kernel refuses is not in the error', async () => {
  const target = directory('refusing');
  const options = ['logbsize=12345'];
  await rejectsWith(
    mount({ source: xfs, target, fsType: 'xfs', options }),
    'FAILED_PRECONDITION',
    /^(?!.*12345).*refusing.*EINVAL|^(?!.*12345).*refusing.*Invalid/,
  );
  assert.equal(await isMountPoint(target), false);
});

rootTest('a read-only mount is one of the file system and of its mount point', async () => {
  const target = directory('read only');
  await mount({ source: ext4, target, fsType: 'ext4', options: ['ro', 'nosuid', 'strictatime'] });
  const top = await topMount(target);
  assert.ok(top?.readOnly && top.superReadOnly && top.options.includes('nosuid'));
  assert.ok(!top.options.includes('relatime') && !top.options.includes('noatime'));
  await unmount(target);
});

rootTest('nothing is mounted through a link, or over another mount', async () => {
  const [real, link] = [directory('plain'), workspace.path('led-away')];
  directory('plain/deeper');
  symlinkSync(real, link);
  const request = { source: ext4, fsType: 'ext4', options: [], isResolved: true };
  for (const target of [link, workspace.path('led-away', 'deeper')]) {
    await rejectsWith(mount({ ...request, target }), 'FAILED_PRECONDITION', /led-away/);
    assert.deepEqual(mountsBelow(workspace.directory), []);
  }
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', real]);
  await rejectsWith(
    mount({ ...request, target: real }),
    'FAILED_PRECONDITION',
    /something is mounted on it/,
  );
  assert.equal((await topMount(real))?.fsType, 'tmpfs');
  await unmount(real);
});

rootTest('a bind that a kill left without its flags gets them with the next call', async () => {
  const staging = directory('half-staging');
  const target = directory('half-target');
  await mount({ source: ext4, target: staging, fsType: 'ext4', options: [] });
  execFileSync('mount', ['--bind', staging, target]);
  const native = new NativePool(1);
  const bound = await topMount(target);
  assert.ok(bound !== null);
  const options = ['nodev', 'strictatime', 'suid'];
  await setLayerFlags(native, bound, { target, readOnly: true, options });
  await native.close();
  const top = await topMount(target);
  assert.equal(top?.readOnly, true);
  assert.ok(top?.options.includes('nodev') && !top.options.includes('relatime'));
  assert.equal(layers(target), 1);
  await unmount(target);
  await unmount(staging);
});

rootTest('all layers stacked on one target are unmounted', async () => {
  const staging = directory('pile-staging');
  const target = directory('pile-target');
  await mount({ source: ext4, target: staging, fsType: 'ext4', options: [] });
  for (let layer = 0; layer < 5; layer += 1) execFileSync('mount', ['--bind', staging, target]);
  assert.equal(layers(target), 5);
  await unmount(target);
  assert.equal(layers(target), 0);
  await unmount(staging);
});

rootTest('unmounting stops above a foreign layer', async () => {
  const staging = directory('foreign-staging');
  const target = directory('foreign-target');
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', target]);
  await mount({ source: ext4, target: staging, fsType: 'ext4', options: [] });
  execFileSync('mount', ['--bind', staging, target]);
  await unmount(target, (entry) => entry.fsType === 'ext4');
  assert.equal((await topMount(target))?.fsType, 'tmpfs');
  await unmount(staging);
});

rootTest('a busy mount is a failed precondition that names the path, and stays', async () => {
  const target = directory('busy');
  await mount({ source: ext4, target, fsType: 'ext4', options: [] });
  const held = openSync(target, 'r');
  try {
    await rejectsWith(unmount(target), 'FAILED_PRECONDITION', /\/busy cannot be unmounted/);
    assert.equal(await isMountPoint(target), true);
  } finally {
    closeSync(held);
  }
  await unmount(target);
});

rootTest('a link in a parent directory is resolved', async () => {
  directory('real/target');
  symlinkSync(workspace.path('real'), workspace.path('linked'));
  const target = workspace.path('linked', 'target');
  await mount({ source: ext4, target, fsType: 'ext4', options: [] });
  const top = await topMount(target);
  assert.equal(top?.mountPoint, workspace.path('real', 'target'));
  assert.ok(isOfDevice(top, (top.major << 8) | top.minor));
  await unmount(target);
  assert.equal(layers(workspace.path('real', 'target')), 0);
});

rootTest('nothing is mounted on a path that does not exist', async () => {
  assert.equal(await isMountPoint(workspace.path('absent', 'deeper')), false);
  await unmount(workspace.path('absent', 'deeper'));
});
