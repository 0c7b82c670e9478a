/** In made-up cgroup trees: directories and files with the kernel's names. integration/node/settings has what a pod gets. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findPodCgroup, liftLimits, setLimits } from '../../../src/driver/host/io-limits.js';
import { refused } from '../../support/refusal.js';
import { test as rootTest } from '../../support/running-plugin.js';
import { temporaryDirectory } from '../../support/temporary.js';
import { Workspace } from '../../support/workspace.js';

const UID = '1b0bb9c3-5a5e-4d3c-9b3e-0d5b7e8f9a01';
const UNDERSCORED = UID.replaceAll('-', '_');
const NONE = {
  readBytesPerSecond: null,
  writeBytesPerSecond: null,
  readOperationsPerSecond: null,
  writeOperationsPerSecond: null,
};

const root = temporaryDirectory();

test('the cgroup of a pod is found, of any driver and class, and only in directories of the kubelet', async () => {
  for (const path of [
    `kubepods/pod${UID}`,
    `kubepods/burstable/pod${UID}`,
    `kubelet/kubepods/besteffort/pod${UID}`,
    `kubepods.slice/kubepods-pod${UNDERSCORED}.slice`,
    `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${UNDERSCORED}.slice`,
    'kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/' +
      `kubelet-kubepods-besteffort-pod${UNDERSCORED}.slice`,
  ]) {
    const tree = temporaryDirectory();
    mkdirSync(join(tree, 'system.slice', `pod${UID}`), { recursive: true });
    mkdirSync(join(tree, 'kubepods', 'burstable', 'pod0000'), { recursive: true });
    assert.equal(await findPodCgroup(tree, UID), null);
    mkdirSync(join(tree, path, 'container'), { recursive: true });
    assert.equal(await findPodCgroup(tree, UID), join(tree, path));
    assert.equal(await findPodCgroup(tree, UID.slice(1)), null);
  }
});

test('limits go into io.max as one write; a file that is not there is not made', async () => {
  const device = { major: 7, minor: 1 };
  const cgroup = temporaryDirectory();
  const refusal = setLimits(cgroup, device, NONE);
  await refused(refusal, 'FAILED_PRECONDITION', /no io.max.*cgroup.subtree_control/);
  assert.equal(existsSync(join(cgroup, 'io.max')), false);
  writeFileSync(join(cgroup, 'io.max'), '');
  await setLimits(cgroup, device, { ...NONE, writeBytesPerSecond: 2n ** 63n - 1n });
  const line = readFileSync(join(cgroup, 'io.max'), 'utf8');
  assert.equal(line, '7:1 rbps=max wbps=9223372036854775807 riops=max wiops=max');
});

test('limits of a pod that goes away meanwhile are to be tried again', async () => {
  const limits = { ...NONE, readBytesPerSecond: 4096n };
  const set = setLimits(join(root, 'gone'), { major: 7, minor: 1 }, limits);
  await refused(set, 'ABORTED', /has gone; try again/);
});

test('limits are lifted, and a failure counts only where there is one of the device', async () => {
  const device = { major: 7, minor: 1 };
  const cgroup = temporaryDirectory();
  const ioMax = join(cgroup, 'io.max');
  await liftLimits(join(root, 'gone'), device);
  await liftLimits(cgroup, device);
  assert.equal(existsSync(ioMax), false);
  writeFileSync(ioMax, '');
  await liftLimits(cgroup, device);
  assert.equal(readFileSync(ioMax, 'utf8'), '7:1 rbps=max wbps=max riops=max wiops=max');
  rmSync(ioMax);
  mkdirSync(ioMax);
  await refused(liftLimits(cgroup, device), 'INTERNAL', /7:1 .* could not be lifted: EISDIR/);
});

rootTest('a device without limits is not a failure on a read-only cgroup tree', async () => {
  const workspace = new Workspace('io-limits');
  try {
    const ioMax = workspace.path('io.max');
    writeFileSync(ioMax, '7:11 rbps=4096 wbps=max riops=max wiops=max\n');
    execFileSync('mount', ['--bind', ioMax, ioMax]);
    execFileSync('mount', ['-o', 'remount,bind,ro', ioMax]);
    await liftLimits(workspace.directory, { major: 7, minor: 1 });
    const lifted = liftLimits(workspace.directory, { major: 7, minor: 11 });
    await refused(lifted, 'INTERNAL', /EROFS/);
  } finally {
    workspace.dispose();
  }
});
