import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { after, before } from 'node:test';
import { makeFileSystem } from '../../../src/host/filesystem.js';
import { otherBtrfsMounted, unaskedInForce } from '../../../src/host/mounted-file-system.js';
import { readMountInfo } from '../../../src/host/mountinfo.js';
import { btrfsIdentity } from '../../../src/host/superblock.js';
import { mount, unmount } from '../../support/mounts.js';
import { test as rootTest } from '../../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const SIZE = 320n << 20n;
let workspace: Workspace;
before(() => {
  if (skipUnlessRoot === false) workspace = new Workspace('mounted');
});
after(() => workspace?.dispose());

function device(name: string): { source: string; target: string } {
  const image = workspace.path(name);
  const target = workspace.path(`${name}.mount`);
  mkdirSync(target);
  execFileSync('truncate', ['-s', String(SIZE), image]);
  const source = execFileSync('losetup', ['--show', '-f', image], { encoding: 'utf8' }).trim();
  return { source, target };
}

rootTest(
  'an effective ext4 option that was not requested is found, a requested one is not',
  async () => {
    const { source, target } = device('ext4');
    await makeFileSystem('ext4', source, SIZE);
    const asked = ['rw', 'errors=remount-ro'];
    for (const [options, unasked] of [
      [[], null],
      [['data=journal'], 'data=journal'],
      [['data=writeback'], 'data=writeback'],
      [['nobarrier'], 'nobarrier'],
      [['errors=continue'], 'errors=continue'],
    ] as const) {
      await mount({ source, target, fsType: 'ext4', options: [...asked, ...options] });
      assert.equal(await unaskedInForce('ext4', source, asked, await readMountInfo()), unasked);
      if (unasked?.startsWith('errors=') === false) {
        assert.equal(
          await unaskedInForce('ext4', source, [...asked, unasked], await readMountInfo()),
          null,
        );
      }
      if (unasked === 'nobarrier') {
        assert.equal(
          await unaskedInForce('ext4', source, [...asked, 'barrier=0'], await readMountInfo()),
          null,
        );
      }
      await unmount(target);
    }
  },
);

rootTest('a log of XFS on another device is found once it is mounted', async () => {
  const data = device('xfs');
  const log = device('log');
  execFileSync('mkfs.xfs', ['-q', '-f', '-l', `logdev=${log.source},size=64m`, data.source]);
  const options = [`logdev=${log.source}`];
  await mount({ ...data, fsType: 'xfs', options });
  assert.equal(
    await unaskedInForce('xfs', data.source, [], await readMountInfo()),
    `logdev=${log.source}`,
  );
  await unmount(data.target);
});

rootTest(
  'a second device of a mounted btrfs is found, and so is the id of another file system',
  async () => {
    const first = device('btrfs');
    const second = device('second');
    await makeFileSystem('btrfs', first.source, SIZE);
    await mount({ ...first, fsType: 'btrfs', options: [] });
    const { uuid } = await btrfsIdentity(first.source);
    assert.equal(await unaskedInForce('btrfs', first.source, [], await readMountInfo()), null);
    assert.equal((await otherBtrfsMounted(first.source)).includes(uuid), false);
    assert.equal((await otherBtrfsMounted(second.source)).includes(uuid), true);
    execFileSync('btrfs', ['device', 'add', '-f', '-K', second.source, first.target], {
      stdio: 'ignore',
    });
    assert.equal(
      await unaskedInForce('btrfs', first.source, [], await readMountInfo()),
      '2 devices',
    );
    await unmount(first.target);
  },
);
