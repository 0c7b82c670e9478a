/**
 * File systems on loop devices: how they are made, probed, checked, grown, and given an id of their own, and what is
 * found of options in force. Staging with all of it is in the other files of this folder.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { after, test as plainTest } from 'node:test';
import { readMountInfo } from '../../../src/base/system/mountinfo.js';
import { giveIdentity } from '../../../src/driver/host/btrfs-identity.js';
import { canGrowMounted, growUnmountedExt4 } from '../../../src/driver/host/file-system-growth.js';
import { FILE_SYSTEMS, type FileSystem, MINIMUM_BYTES } from '../../../src/driver/host/file-systems.js';
import {
  checkFileSystem,
  describeSignature,
  makeFileSystem,
  mountOptions,
  parseSignature,
  probe,
  publishedOptions,
} from '../../../src/driver/host/filesystem.js';
import { attributesOf } from '../../../src/driver/host/layers.js';
import { unaskedInForce } from '../../../src/driver/host/mounted-file-system.js';
import { btrfsIdentity, isGrowable } from '../../../src/driver/host/superblock.js';
import { onThisThread } from '../../../src/driver/native/this-thread.js';
import { crc32c } from '../../support/crc32c.js';
import { partitionTable } from '../../support/foreign-signatures.js';
import { attachLoop, sparseFile } from '../../support/loops.js';
import { mount, unmount } from '../../support/mounts.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { Workspace } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const MIB = 1n << 20n;

plainTest('blkid tags are distinguished: file system, foreign, partition table, nothing', () => {
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

plainTest(
  'xfs is always mounted with nouuid, read-only is one decision, and no flag makes the staging mount trusted, or an ext4 panic',
  () => {
    const trust = ['nosuid', 'nodev'];
    assert.deepEqual(mountOptions('xfs', [], false), ['rw', ...trust, 'nouuid']);
    assert.deepEqual(mountOptions('xfs', ['nouuid', 'ro'], true), ['ro', ...trust, 'nouuid']);
    const mild = 'errors=remount-ro';
    const flags = ['suid,dev', 'rw,noatime', 'errors=panic,discard'];
    const mounted = ['ro', ...trust, 'noatime', 'discard', mild];
    assert.deepEqual(mountOptions('ext4', flags, true), mounted);
    assert.deepEqual(publishedOptions([], ['dev', 'noatime']), ['noatime', 'nosuid', 'nodev']);
    assert.deepEqual(publishedOptions(['suid'], []), ['suid', 'nodev']);
    assert.deepEqual(publishedOptions(['suid'], ['nosuid']), ['nosuid', 'nodev']);
    assert.deepEqual(publishedOptions([], ['nosuid,suid']), ['suid', 'nodev']);
  },
);

plainTest('the last one of mutually exclusive options of a bind takes effect', () => {
  const of = (...options: string[]) => attributesOf({ readOnly: false, options });
  assert.deepEqual(of('nosuid', 'suid'), { set: 0, clear: 2 });
  assert.deepEqual(of('suid', 'nosuid').set, 2);
  assert.deepEqual(of('noatime', 'strictatime'), { set: 0x20, clear: 0x70 });
  assert.deepEqual(of('discard', 'rw', 'noatime', 'atime'), { set: 0, clear: 0x70 });
});

const workspace = new Workspace('filesystem');
after(() => workspace.dispose());
const target = workspace.path('mount');
mkdirSync(target);
let next = 0;

type Device = Record<'image' | 'path', string>;

const attach = (image: string): Device => ({ image, path: attachLoop(image, '--direct-io=on') });

function device(sizeBytes: bigint): Device {
  next += 1;
  return attach(sparseFile(workspace.path(`image-${next}`), sizeBytes));
}

async function made(type: FileSystem, sizeBytes = 400n * MIB): Promise<Device> {
  const empty = device(sizeBytes);
  await makeFileSystem(type, empty.path, sizeBytes);
  return empty;
}

async function whileMounted<T>(
  type: FileSystem,
  { path }: Device,
  use: (target: string) => T | Promise<T>,
  options = mountOptions(type, [], false),
): Promise<T> {
  await mount({ source: path, target, fsType: type, options });
  try {
    return await use(target);
  } finally {
    await unmount(target);
  }
}

for (const type of FILE_SYSTEMS) {
  test(`the smallest ${type} can be written to, and grow exactly if its device is larger`, async () => {
    const smallest = MINIMUM_BYTES[type];
    const empty = device(smallest);
    assert.deepEqual(await probe(empty.path), { kind: 'none' });
    await makeFileSystem(type, empty.path, smallest);
    await checkFileSystem(type, empty.path);
    const signature = await probe(empty.path);
    assert.ok(signature.kind === 'filesystem' && signature.type === type);
    await whileMounted(type, empty, (path) => writeFileSync(`${path}/file`, Buffer.alloc(4 << 20, 1), { flush: true }));
    assert.equal(await isGrowable(onThisThread, type, empty.path, smallest), false);
    assert.equal(await isGrowable(onThisThread, type, empty.path, 2n * smallest), true);
  });

  test(`making ${type} on a large sparse device writes little`, async () => {
    const { image } = await made(type, 200n * 1024n * MIB);
    execFileSync('sync', [image]);
    const allocated = statSync(image).blocks * 512;
    assert.ok(allocated < 300 << 20, `${allocated} bytes`);
  });

  test(`a device with ${type} in use is not formatted`, async () => {
    const used = await made(type);
    await whileMounted(type, used, async (path) => {
      writeFileSync(`${path}/file`, 'content');
      const again = makeFileSystem(type, used.path, 400n * MIB);
      await refused(again, 'FAILED_PRECONDITION', /could not be made/);
      assert.equal(readFileSync(`${path}/file`, 'utf8'), 'content');
    });
  });
}

test('ext4 with a journal to replay is mounted read-only, and loses nothing', async () => {
  const { image, path } = await made('ext4', 200n * MIB);
  await whileMounted('ext4', { image, path }, (mounted) => {
    writeFileSync(`${mounted}/file`, 'content', { flush: true });
    execFileSync('sync', [path]);
    execFileSync('cp', ['--sparse=always', image, `${image}.copy`]);
  });
  const copy = attach(`${image}.copy`);
  const dump = execFileSync('dumpe2fs', ['-h', copy.path], { encoding: 'utf8', stdio: 'pipe' });
  assert.match(dump, /needs_recovery/);
  const read = (mounted: string): string => readFileSync(`${mounted}/file`, 'utf8');
  assert.equal(await whileMounted('ext4', copy, read, mountOptions('ext4', [], true)), 'content');
});

test('what is not one file system is named, and a missing device is an error', async () => {
  const foreign = device(20n * MIB);
  writeFileSync(foreign.path, partitionTable());
  assert.deepEqual(await probe(foreign.path), { kind: 'foreign', type: 'dos partition table' });
  execFileSync('mkswap', [foreign.path], { stdio: 'pipe' });
  assert.deepEqual(await probe(foreign.path), { kind: 'foreign', type: 'swap' });
  // XFS has its magic in the first block, which ext4 leaves alone.
  const [both, donor] = [await made('ext4'), await made('xfs')];
  writeFileSync(both.path, readFileSync(donor.image).subarray(0, 512), { flag: 'r+', flush: true });
  assert.deepEqual(await probe(both.path), { kind: 'ambiguous' });
  await assert.rejects(probe('/dev/blockdelta-no-such-device'), /ENOENT/);
});

test('ext4 of any size is not growable right after it was made', async () => {
  // The last group of some of these is too small to be made.
  for (const sizeBytes of [16n, 17n, 64n, 129n, 257n, 1025n, 1153n].map((mib) => mib * MIB)) {
    for (const odd of [0n, 4096n, 512n * 1024n]) {
      const { path } = await made('ext4', sizeBytes + odd);
      assert.equal(await isGrowable(onThisThread, 'ext4', path, sizeBytes + odd), false, `${sizeBytes + odd}`);
    }
  }
});

test('ext4 is grown to its device with its data, but not while it is in use or damaged', async () => {
  const grown = await made('ext4', 64n * MIB);
  await whileMounted('ext4', grown, (path) => writeFileSync(`${path}/data`, 'kept'));
  execFileSync('truncate', ['-s', '20G', grown.image]);
  execFileSync('losetup', ['-c', grown.path]);
  await whileMounted('ext4', grown, async (path) => {
    await refused(growUnmountedExt4(grown.path), 'FAILED_PRECONDITION', /could not be grown/);
    const inUse = new RegExp(`uses its device: ${grown.path} is mounted at ${path}; end that`);
    await refused(checkFileSystem('ext4', grown.path), 'FAILED_PRECONDITION', inUse);
  });
  // Growing it again changes nothing.
  for (let time = 0; time < 2; time += 1) await growUnmountedExt4(grown.path);
  assert.equal(await isGrowable(onThisThread, 'ext4', grown.path, 20480n * MIB), false);
  await whileMounted('ext4', grown, (path) => {
    const { blocks, bsize } = statfsSync(path);
    assert.ok(blocks * bsize > 18 * 1024 ** 3);
    assert.equal(readFileSync(`${path}/data`, 'utf8'), 'kept');
  });
  execFileSync('debugfs', ['-w', '-R', 'clri <2>', grown.path], { stdio: 'pipe' });
  execFileSync('debugfs', ['-w', '-R', 'set_super_value state 2', grown.path], { stdio: 'pipe' });
  const checked = checkFileSystem('ext4', grown.path);
  await refused(checked, 'FAILED_PRECONDITION', /is damaged; repair it by hand with fsck.ext4/);
  await refused(growUnmountedExt4(grown.path), 'FAILED_PRECONDITION', /repair it by hand/);
});

test('only ext4 may need a capability to be grown while mounted', async () => {
  assert.equal(await canGrowMounted('xfs'), true);
  assert.equal(await canGrowMounted('btrfs'), true);
  const bits = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  assert.equal(await canGrowMounted('ext4'), ((BigInt(`0x${bits}`) >> 24n) & 1n) === 1n);
});

test('an option in force that was not requested is found, a requested one is not', async () => {
  const ext4 = await made('ext4');
  const asked = ['rw', 'errors=remount-ro'];
  const inForce = async (type: FileSystem, { path }: Device, ...more: string[]) =>
    unaskedInForce(type, statSync(path).rdev, [...asked, ...more], await readMountInfo());
  for (const [option, also] of [
    [null, null],
    ['data=journal', 'data=journal'],
    ['data=writeback', 'data=writeback'],
    ['nobarrier', 'barrier=0'],
    ['errors=continue', null],
  ] as const) {
    const options = option === null ? asked : [...asked, option];
    await whileMounted(
      'ext4',
      ext4,
      async () => {
        assert.equal(await inForce('ext4', ext4), option);
        if (also !== null) assert.equal(await inForce('ext4', ext4, also), null);
      },
      options,
    );
  }
  const [xfs, second] = [device(320n * MIB), device(320n * MIB)];
  const log = `logdev=${second.path}`;
  execFileSync('mkfs.xfs', ['-q', '-f', '-l', `${log},size=64m`, xfs.path]);
  await whileMounted('xfs', xfs, async () => assert.equal(await inForce('xfs', xfs), log), [log]);
  const btrfs = await made('btrfs');
  await whileMounted('btrfs', btrfs, async (path) => {
    assert.equal(await inForce('btrfs', btrfs), null);
    execFileSync('btrfs', ['device', 'add', '-f', '-K', second.path, path], { stdio: 'ignore' });
    assert.equal(await inForce('btrfs', btrfs), '2 devices');
  });
});

test('a copy of a btrfs with a log gets its own id once, and keeps the content of the log', async () => {
  const source = await made('btrfs', 128n * MIB);
  // While it is copied, which takes long on a busy machine, the source must not commit by itself.
  const slow = mountOptions('btrfs', ['commit=300'], false);
  await whileMounted(
    'btrfs',
    source,
    (path) => {
      const descriptor = openSync(`${path}/data`, 'w');
      writeSync(descriptor, 'a'.repeat(100_000));
      execFileSync('sync', ['-f', path]);
      writeSync(descriptor, 'b'.repeat(100_000), 0);
      fsyncSync(descriptor);
      closeSync(descriptor);
      copyFileSync(source.image, `${source.image}.copy`);
    },
    slow,
  );
  const copy = attach(`${source.image}.copy`);
  assert.equal((await btrfsIdentity(onThisThread, copy.path)).hasLog, true, 'without a log this proves nothing');
  const uuid = randomUUID();
  // Again is nothing: btrfstune itself would refuse an id that is in use.
  for (let time = 0; time < 3; time += 1) await giveIdentity(onThisThread, copy.path, uuid, target);
  assert.deepEqual(await btrfsIdentity(onThisThread, copy.path), { uuid, hasLog: false });
  execFileSync('btrfs', ['check', copy.path], { stdio: 'pipe' });
  await whileMounted('btrfs', copy, async (path) => {
    assert.equal(readFileSync(`${path}/data`, 'utf8'), 'b'.repeat(100_000));
    const inUse = giveIdentity(onThisThread, copy.path, randomUUID(), target);
    await refused(inUse, 'ABORTED', /still held; try again/);
  });
  assert.equal((await btrfsIdentity(onThisThread, copy.path)).uuid, uuid);
  markChanging(copy.image);
  const cut = giveIdentity(onThisThread, copy.path, randomUUID(), target);
  await refused(cut, 'FAILED_PRECONDITION', /restore it again/);
});

/** As a power failure after btrfstune's first write: the flag CHANGING_FSID_V2, and a checksum that fits. */
function markChanging(image: string): void {
  const place = 65536;
  const block = readFileSync(image).subarray(place, place + 4096);
  block.writeBigUInt64LE(block.readBigUInt64LE(56) | (1n << 36n), 56);
  block.fill(0, 0, 32);
  block.writeUInt32LE(crc32c(block.subarray(32)), 0);
  writeAt(image, place, block);
}
