/**
 * Growing an ext4 while it is mounted and written to, by the addon alone. It needs CAP_SYS_RESOURCE,
 * which the containers that tests run in often lack; a guest has it.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { canGrowMounted } from '../../src/host/growth.js';
import type { NativePool } from '../../src/native/pool.js';
import { sharedThreads } from '../support/shared-threads.js';
import { Workspace } from '../support/workspace.js';
import { guestTest } from './guest.js';

const MIB = 1024n * 1024n;
const SMALL = 32n * MIB;
const LARGE = 2048n * MIB;
const FILE_BYTES = 1 << 20;

interface Ext4Volume {
  path: string;
  devicePath: string;
  mountPoint: string;
}

async function mountedVolume(
  workspace: Workspace,
  native: NativePool,
  mkfsOptions: readonly string[] = [],
): Promise<Ext4Volume> {
  const path = workspace.path('volume');
  await native.run('createSparseFile', {
    temporaryPath: `${path}.tmp`,
    finalPath: path,
    sizeBytes: SMALL,
  });
  const request = { backingPath: path, readOnly: false, label: '' };
  const { device } = await native.run('loopAttach', request);
  const mountPoint = workspace.path('mount');
  mkdirSync(mountPoint);
  execFileSync('mkfs.ext4', ['-q', ...mkfsOptions, device.path]);
  execFileSync('mount', [device.path, mountPoint]);
  return { path, devicePath: device.path, mountPoint };
}

/** Files of 1 MiB, each filled with its own number. */
async function writeNumbered(directory: string, number: number): Promise<void> {
  const handle = await open(join(directory, `file-${number}`), 'w');
  try {
    await handle.writeFile(Buffer.alloc(FILE_BYTES, number % 256));
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function readNumbered(directory: string, number: number): Promise<void> {
  const bytes = await readFile(join(directory, `file-${number}`));
  assert.ok(bytes.equals(Buffer.alloc(FILE_BYTES, number % 256)), `file-${number} has other bytes`);
}

guestTest('a mounted ext4 grows while it is written to, and is consistent afterwards', async () => {
  const workspace = new Workspace('guest');
  const native = sharedThreads();
  try {
    const { path, devicePath, mountPoint } = await mountedVolume(workspace, native);
    let written = 0;
    let enough = false;
    const writer = (async () => {
      for (; !enough && written < 40; written += 1) await writeNumbered(mountPoint, written);
    })();
    assert.deepEqual((await native.run('growFile', { path, sizeBytes: LARGE })).grown, true);
    const { device } = await native.run('loopResize', { backingPath: path });
    assert.equal(device?.sizeBytes, LARGE);
    const grown = await native.run('growFileSystem', { mountPoint, devicePath });
    assert.equal(grown.fileSystem, 'ext4');
    assert.ok(grown.beforeBytes < SMALL && grown.afterBytes > (LARGE * 9n) / 10n);
    enough = true;
    await writer;
    assert.ok(written > 0, 'nothing was written meanwhile');
    const again = await native.run('growFileSystem', { mountPoint, devicePath });
    assert.equal(again.beforeBytes, grown.afterBytes);
    assert.equal(again.afterBytes, grown.afterBytes);
    // More than fitted before.
    const all = written + Number(SMALL / MIB);
    for (let number = written; number < all; number += 1) await writeNumbered(mountPoint, number);
    for (let number = 0; number < all; number += 1) await readNumbered(mountPoint, number);
    execFileSync('umount', [mountPoint]);
    execFileSync('e2fsck', ['-fn', devicePath], { stdio: ['ignore', 'ignore', 'inherit'] });
  } finally {
    workspace.dispose();
  }
});

// What the Node service goes by when it tells these from a missing capability, and from each other.
for (const [what, options, code] of [
  ['has recorded errors', [], 'EPERM'],
  ['is of a kind that grows only unmounted', ['-O', 'sparse_super2'], 'EOPNOTSUPP'],
] as const) {
  guestTest(`an ext4 that ${what} is refused with ${code} whatever the capabilities`, async () => {
    const workspace = new Workspace('guest');
    const native = sharedThreads();
    try {
      const { path, devicePath, mountPoint } = await mountedVolume(workspace, native, options);
      assert.equal(await canGrowMounted('ext4'), true);
      const name = basename(devicePath);
      if (code === 'EPERM') writeFileSync(`/sys/fs/ext4/${name}/trigger_fs_error`, 'by a test');
      await native.run('growFile', { path, sizeBytes: LARGE });
      await native.run('loopResize', { backingPath: path });
      const grown = native.run('growFileSystem', { mountPoint, devicePath });
      await assert.rejects(grown, { code });
    } finally {
      workspace.dispose();
    }
  });
}
