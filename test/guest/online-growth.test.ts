/**
 * Mounted ext4 that the kernel does not let grow, with every capability: containers that tests run in often lack
 * CAP_SYS_RESOURCE, which looks the same. plugin.test.ts has one that grows.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { canGrowMounted } from '../../src/driver/host/file-system-growth.js';
import { loopOn } from '../support/loops.js';
import { nativeHere } from '../support/native-here.js';
import { Workspace } from '../support/workspace.js';
import { test } from './guest.js';

const MIB = 1024n * 1024n;

// What the Node service goes by when it tells these from a missing capability, and from each other.
for (const [what, options, code] of [
  ['has recorded errors', [], 'EPERM'],
  ['is of a kind that grows only unmounted', ['-O', 'sparse_super2'], 'EOPNOTSUPP'],
] as const) {
  test(`an ext4 that ${what} is refused with ${code} whatever the capabilities`, async () => {
    const workspace = new Workspace('guest');
    const native = nativeHere();
    try {
      const path = workspace.path('volume');
      const devicePath = await loopOn(native, path, 32n * MIB);
      const mountPoint = workspace.path('mount');
      mkdirSync(mountPoint);
      execFileSync('mkfs.ext4', ['-q', ...options, devicePath]);
      execFileSync('mount', [devicePath, mountPoint]);
      assert.equal(await canGrowMounted('ext4'), true);
      const errors = `/sys/fs/ext4/${basename(devicePath)}/trigger_fs_error`;
      if (code === 'EPERM') writeFileSync(errors, 'by a test');
      await native.run('growFile', { path, sizeBytes: 2048n * MIB });
      await native.run('loopResize', { backingPath: path });
      await assert.rejects(native.run('growFileSystem', { mountPoint, devicePath }), { code });
    } finally {
      workspace.dispose();
    }
  });
}
