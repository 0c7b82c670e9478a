import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { FILE_SYSTEMS, type FileSystem, MINIMUM_BYTES } from '../../../src/host/file-systems.js';
import {
  checkFileSystem,
  describeSignature,
  makeFileSystem,
  makePoolFileSystem,
  mountOptions,
  parseSignature,
  probe,
  publishedOptions,
} from '../../../src/host/filesystem.js';
import { rejectsWith } from '../../support/expect-status.js';
import { mount, unmount } from '../../support/mounts.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const MIB = 1n << 20n;

test('blkid tags are distinguished: file system, foreign, partition table, nothing', () => {
  const cases: [string, string][] = [
    ['DEVNAME=/dev/x\nUUID=u\nTYPE=ext4\nUSAGE=filesystem\n', 'a file system of type ext4'],
    ['TYPE=btrfs\nUSAGE=filesystem\n', 'a file system of type btrfs'],
    ['TYPE=crypto_LUKS\nUSAGE=crypto\n', 'crypto_LUKS'],
    ['TYPE=swap\nUSAGE=other\n', 'swap'],
    ['DEVNAME=/dev/x\nPTUUID=1\nPTTYPE=gpt\n', 'gpt partition table'],
    ['DEVNAME=/dev/x\n', 'no known signature'],
    ['', 'no known signature'],
  ];
  for (const [text, expected] of cases) {
    assert.equal(describeSignature(parseSignature(text)), expected);
  }
});

test('xfs is always mounted with nouuid, and read-only is one decision', () => {
  const trust = ['nosuid', 'nodev'];
  assert.deepEqual(mountOptions('xfs', [], false), ['rw', ...trust, 'nouuid']);
  assert.deepEqual(mountOptions('xfs', ['nouuid', 'ro'], true), ['ro', ...trust, 'nouuid']);
  assert.deepEqual(mountOptions('ext4', ['rw,noatime', 'discard'], true), [
    'ro',
    ...trust,
    'noatime',
    'discard',
    'errors=remount-ro',
  ]);
});

test('no flag makes the staging mount trusted, or an ext4 panic', () => {
  assert.deepEqual(mountOptions('ext4', ['suid,dev', 'errors=panic,noatime'], false), [
    'rw',
    'nosuid',
    'nodev',
    'noatime',
    'errors=remount-ro',
  ]);
  assert.deepEqual(publishedOptions([], ['dev', 'noatime']), ['noatime', 'nosuid', 'nodev']);
  assert.deepEqual(publishedOptions(['suid'], []), ['suid', 'nodev']);
  assert.deepEqual(publishedOptions(['suid'], ['nosuid']), ['nosuid', 'nodev']);
  assert.deepEqual(publishedOptions([], ['nosuid,suid']), ['suid', 'nodev']);
});

const rootTest = (title: string, body: () => Promise<void>): void => {
  test(title, { skip: skipUnlessRoot }, body);
};

let workspace: Workspace;
let next = 0;
before(() => {
  workspace = new Workspace('filesystem');
});
after(() => workspace.dispose());

const attach = (image: string, ...options: string[]): string =>
  execFileSync('losetup', ['--show', '-f', ...options, image], { encoding: 'utf8' }).trim();
const device = (size: string): { image: string; path: string } => {
  next += 1;
  const image = workspace.path(`image-${next}`);
  execFileSync('truncate', ['-s', size, image]);
  return { image, path: attach(image) };
};
const directory = (name: string): string => {
  mkdirSync(workspace.path(name), { recursive: true });
  return workspace.path(name);
};

for (const type of FILE_SYSTEMS) {
  rootTest(`${type} is made, probed, checked and mounted, also over an earlier one`, async () => {
    const { path } = device('400M');
    assert.deepEqual(await probe(path), { kind: 'none' });
    await makeFileSystem(type === 'ext4' ? 'xfs' : 'ext4', path, 400n * MIB);
    await makeFileSystem(type, path, 400n * MIB);
    const signature = await probe(path);
    assert.ok(signature.kind === 'filesystem' && signature.type === type);
    await checkFileSystem(type, path);
    const target = directory(`made-${type}`);
    await mount({ source: path, target, fsType: type, options: mountOptions(type, [], false) });
    await unmount(target);
  });

  rootTest(`making ${type} on a large sparse device is quick and writes little`, async () => {
    const { image, path } = device('200G');
    const begin = Date.now();
    await makeFileSystem(type, path, 200n * 1024n * MIB);
    execFileSync('sync', [image]);
    assert.ok(Date.now() - begin < 20_000);
    const allocated = statSync(image).blocks * 512;
    assert.ok(allocated < 300 << 20, `${allocated} bytes`);
  });

  rootTest(
    `${type} snapshotted while in use is mounted read-only with everything that was synced`,
    async () => {
      const { path, image } = device('400M');
      const copy = await cutFrozen(type, path, image);
      const target = directory(`dirty-${type}`);
      const options = mountOptions(type, [], true);
      await mount({ source: copy, target, fsType: type, options });
      assert.equal(readFileSync(`${target}/file`, 'utf8'), 'content');
      assert.throws(() => writeFileSync(`${target}/other`, ''), /EROFS/);
      await unmount(target);
    },
  );

  if (type === 'btrfs') continue;
  rootTest(`${type} is mounted beside a copy with the same UUID`, async () => {
    const { path, image } = device('400M');
    const copy = await cutFrozen(type, path, image);
    const [first, second] = [directory(`source-${type}`), directory(`copy-${type}`)];
    const options = mountOptions(type, [], false);
    await mount({ source: path, target: first, fsType: type, options });
    await checkFileSystem(type, copy);
    await mount({ source: copy, target: second, fsType: type, options });
    assert.equal(readFileSync(`${second}/file`, 'utf8'), 'content');
    await unmount(first);
    await unmount(second);
  });
}

/** A copy of the device in the state a snapshot has: synced, frozen, with its journal or log in use. */
async function cutFrozen(type: FileSystem, path: string, image: string): Promise<string> {
  await makeFileSystem(type, path, 400n * MIB);
  const target = directory('cutting');
  await mount({ source: path, target, fsType: type, options: mountOptions(type, [], false) });
  writeFileSync(`${target}/gone`, 'gone');
  writeFileSync(`${target}/file`, 'content', { flush: true });
  rmSync(`${target}/gone`);
  execFileSync('fsfreeze', ['-f', target]);
  try {
    execFileSync('sync', [path]);
    execFileSync('cp', ['--sparse=always', image, `${image}.copy`]);
  } finally {
    execFileSync('fsfreeze', ['-u', target]);
  }
  await unmount(target);
  return attach(`${image}.copy`);
}

rootTest('ext4 with a journal to replay is mounted read-only, and loses nothing', async () => {
  const { path, image } = device('200M');
  await makeFileSystem('ext4', path, 200n * MIB);
  const target = directory('journal');
  const options = mountOptions('ext4', [], false);
  await mount({ source: path, target, fsType: 'ext4', options });
  writeFileSync(`${target}/file`, 'content', { flush: true });
  execFileSync('sync', [path]);
  execFileSync('cp', ['--sparse=always', image, `${image}.copy`]);
  await unmount(target);
  const copy = attach(`${image}.copy`);
  const dump = execFileSync('dumpe2fs', ['-h', copy], { encoding: 'utf8', stdio: 'pipe' });
  assert.match(dump, /needs_recovery/);
  await mount({ source: copy, target, fsType: 'ext4', options: mountOptions('ext4', [], true) });
  assert.equal(readFileSync(`${target}/file`, 'utf8'), 'content');
  await unmount(target);
});

rootTest('xfs on a volume below 300 MiB is refused before mkfs runs', async () => {
  const { path } = device('200M');
  const made = makeFileSystem('xfs', path, 200n * MIB);
  await rejectsWith(
    made,
    'FAILED_PRECONDITION',
    /needs 314572800 bytes and the volume has 209715200/,
  );
  assert.deepEqual(await probe(path), { kind: 'none' });
});

for (const type of FILE_SYSTEMS) {
  rootTest(`the smallest ${type} can be made, mounted and written to`, async () => {
    const { path } = device(`${MINIMUM_BYTES[type]}`);
    await makeFileSystem(type, path, MINIMUM_BYTES[type]);
    const target = directory(`smallest-${type}`);
    await mount({ source: path, target, fsType: type, options: mountOptions(type, [], false) });
    writeFileSync(`${target}/file`, Buffer.alloc(4 << 20, 1), { flush: true });
    await unmount(target);
  });
}

rootTest(
  'options of the operator reach mkfs, and do not override those of the plugin',
  async () => {
    const { path, image } = device('400M');
    await makeFileSystem('ext4', path, 400n * MIB, ['-E', 'stride=16', '-i', '65536', '-m', '3']);
    const text = execFileSync('dumpe2fs', ['-h', path], { encoding: 'utf8', stdio: 'pipe' });
    assert.match(text, /RAID stride: +16/);
    assert.match(text, /Inode count: +6400/);
    assert.match(text, /Reserved block count: +12288/);
    execFileSync('sync', [image]);
    assert.ok(statSync(image).blocks * 512 < 4 << 20, 'the tables are left for the kernel to zero');
  },
);

rootTest('a device in use is not formatted', async () => {
  for (const type of FILE_SYSTEMS) {
    const { path } = device('400M');
    await makeFileSystem(type, path, 400n * MIB);
    const target = directory(`in-use-${type}`);
    await mount({ source: path, target, fsType: type, options: mountOptions(type, [], false) });
    writeFileSync(`${target}/file`, 'content');
    const made = makeFileSystem(type, path, 400n * MIB);
    await rejectsWith(made, 'FAILED_PRECONDITION', /could not be made/);
    assert.equal(readFileSync(`${target}/file`, 'utf8'), 'content');
    await unmount(target);
  }
});

rootTest('foreign signatures are found and named', async () => {
  const swap = device('20M');
  execFileSync('mkswap', [swap.path], { stdio: 'pipe' });
  assert.deepEqual(await probe(swap.path), { kind: 'foreign', type: 'swap' });
  const table = device('20M');
  writeFileSync(table.path, partitionTable());
  assert.deepEqual(await probe(table.path), { kind: 'foreign', type: 'dos partition table' });
});

/** A master boot record with one Linux partition. */
function partitionTable(): Buffer {
  const sector = Buffer.alloc(512);
  sector[446 + 4] = 0x83;
  sector.writeUInt32LE(2048, 446 + 8);
  sector.writeUInt32LE(8192, 446 + 12);
  sector.writeUInt16LE(0xaa55, 510);
  return sector;
}

rootTest('a device with two file systems is ambiguous', async () => {
  const { path } = device('400M');
  await makeFileSystem('ext4', path, 400n * MIB);
  // XFS has its magic in the first block, which ext4 leaves alone.
  const header = Buffer.alloc(512);
  execFileSync('mkfs.xfs', ['-q', '-f', device('400M').path]);
  const donor = workspace.path(`image-${next}`);
  header.set(readFileSync(donor).subarray(0, 512));
  writeFileSync(workspace.path('header'), header);
  const dd = ['conv=notrunc,fsync', 'status=none', `of=${path}`];
  execFileSync('dd', [`if=${workspace.path('header')}`, ...dd]);
  assert.deepEqual(await probe(path), { kind: 'ambiguous' });
});

rootTest('a missing device is an error, not an empty device', async () => {
  await assert.rejects(probe('/dev/blockdelta-no-such-device'), /ENOENT/);
});

rootTest('damage that needs manual repair is a failed precondition', async () => {
  const { path } = device('64M');
  await makeFileSystem('ext4', path, 64n * MIB);
  execFileSync('debugfs', ['-w', '-R', 'clri <2>', path], { stdio: 'pipe' });
  execFileSync('debugfs', ['-w', '-R', 'set_super_value state 2', path], { stdio: 'pipe' });
  await rejectsWith(checkFileSystem('ext4', path), 'FAILED_PRECONDITION', /damaged or in use/);
});

rootTest('a pool image is made with reflink, in a regular file', async () => {
  const image = workspace.path('pool.img');
  execFileSync('truncate', ['-s', '600M', image]);
  await makePoolFileSystem(image, 256n * MIB);
  const path = attach(image);
  const target = directory('pool');
  await mount({ source: path, target, fsType: 'xfs', options: mountOptions('xfs', [], false) });
  writeFileSync(`${target}/a`, 'content');
  execFileSync('cp', ['--reflink=always', `${target}/a`, `${target}/b`]);
  await unmount(target);
});
