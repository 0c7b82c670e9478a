import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { FILE_SYSTEMS, type FileSystem } from '../../../src/host/file-systems.js';
import { makeFileSystem, mountOptions } from '../../../src/host/filesystem.js';
import { canGrowMounted, growUnmountedExt4 } from '../../../src/host/growth.js';
import { isGrowable } from '../../../src/host/superblock.js';
import { rejectsWith } from '../../support/expect-status.js';
import { mount, unmount } from '../../support/mounts.js';
import { test as rootTest } from '../../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const MIB = 1n << 20n;
let workspace: Workspace;
let next = 0;
before(() => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('growth');
  mkdirSync(workspace.path('mount'));
});
after(() => workspace?.dispose());

/** A file system with a file in it. */
async function made(type: FileSystem, sizeBytes: bigint): Promise<{ path: string; image: string }> {
  next += 1;
  const image = workspace.path(`image-${next}`);
  execFileSync('truncate', ['-s', String(sizeBytes), image]);
  const path = execFileSync('losetup', ['--show', '-f', image], { encoding: 'utf8' }).trim();
  await makeFileSystem(type, path, sizeBytes);
  await whileMounted(type, path, (target) => writeFileSync(`${target}/data`, 'kept'));
  return { path, image };
}

async function whileMounted<T>(
  type: FileSystem,
  path: string,
  use: (target: string) => T,
): Promise<T> {
  const target = workspace.path('mount');
  await mount({ source: path, target, fsType: type, options: mountOptions(type, [], false) });
  const result = use(target);
  await unmount(target);
  return result;
}

function enlarge({ path, image }: { path: string; image: string }, sizeBytes: bigint): void {
  execFileSync('truncate', ['-s', String(sizeBytes), image]);
  execFileSync('losetup', ['-c', path]);
}

for (const type of FILE_SYSTEMS) {
  rootTest(`${type} is growable exactly when its device is larger`, async () => {
    const device = await made(type, 400n * MIB);
    assert.equal(await isGrowable(type, device.path, 400n * MIB), false);
    assert.equal(await isGrowable(type, device.path, 800n * MIB), true);
  });
}

rootTest('ext4 of any size is not growable right after it was made', async () => {
  // The last group of some of these is too small to be made.
  for (const sizeBytes of [16n, 17n, 64n, 129n, 257n, 1025n, 1153n].map((mib) => mib * MIB)) {
    for (const odd of [0n, 4096n, 512n * 1024n]) {
      const { path } = await made('ext4', sizeBytes + odd);
      assert.equal(await isGrowable('ext4', path, sizeBytes + odd), false, `${sizeBytes + odd}`);
    }
  }
});

rootTest(
  'ext4 is grown to its device with its data, and growing it again changes nothing',
  async () => {
    const device = await made('ext4', 64n * MIB);
    enlarge(device, 20480n * MIB);
    for (let time = 0; time < 2; time += 1) await growUnmountedExt4(device.path);
    assert.equal(await isGrowable('ext4', device.path, 20480n * MIB), false);
    const { bytes, data } = await whileMounted('ext4', device.path, (target) => {
      const { blocks, bsize } = statfsSync(target);
      return { bytes: blocks * bsize, data: readFileSync(`${target}/data`, 'utf8') };
    });
    assert.ok(bytes > 18 * 1024 ** 3, `${bytes}`);
    assert.equal(data, 'kept');
  },
);

rootTest('an ext4 that another process holds, or that is damaged, is not grown', async () => {
  const device = await made('ext4', 64n * MIB);
  enlarge(device, 128n * MIB);
  await whileMounted('ext4', device.path, () => undefined);
  const target = workspace.path('mount');
  await mount({ source: device.path, target, fsType: 'ext4', options: ['rw'] });
  await rejectsWith(growUnmountedExt4(device.path), 'FAILED_PRECONDITION', /could not be grown/);
  await unmount(target);
  spawnSync('debugfs', ['-w', '-R', 'clri <2>', device.path], { stdio: 'ignore' });
  await rejectsWith(growUnmountedExt4(device.path), 'FAILED_PRECONDITION', /repair it by hand/);
});

rootTest('only ext4 may need a capability to be grown while mounted', async () => {
  assert.equal(await canGrowMounted('xfs'), true);
  assert.equal(await canGrowMounted('btrfs'), true);
  const bits = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  assert.equal(await canGrowMounted('ext4'), ((BigInt(`0x${bits}`) >> 24n) & 1n) === 1n);
});
