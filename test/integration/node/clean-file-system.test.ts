/**
 * What is staged without blkid and fsck: a clean file system with nothing beside it. Everything else is left to them, and
 * blkid is asked here whether it would have said the same.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, copyFileSync, openSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { after, test } from 'node:test';
import { cleanFileSystem } from '../../../src/driver/host/clean-file-system.js';
import { FILE_SYSTEMS, type FileSystem } from '../../../src/driver/host/file-systems.js';
import { onThisThread } from '../../../src/driver/native/this-thread.js';
import { luksHeader, partitionTable } from '../../support/foreign-signatures.js';
import { attachLoop, detachLoop, sparseFile } from '../../support/loops.js';
import { mount, unmount } from '../../support/mounts.js';
import { seededRandom } from '../../support/random.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const SIZE_BYTES = 320 << 20;
const KIB = 1024;

const workspace = new Workspace('clean-file-system');
after(() => workspace.dispose());
let files = 0;

function path(): string {
  files += 1;
  return workspace.path(`image-${files}`);
}

function made(type: FileSystem | 'ext3' | 'ext2', ...options: string[]): string {
  const image = sparseFile(path(), SIZE_BYTES);
  execFileSync(`mkfs.${type}`, ['-q', ...options, image], { stdio: 'pipe' });
  return image;
}

/** A copy with these bytes at an offset; a negative one counts from the end. */
function planted(image: string, offset: number, bytes: Buffer): string {
  const copy = path();
  execFileSync('cp', ['--sparse=always', image, copy]);
  const fd = openSync(copy, 'r+');
  writeSync(fd, bytes, 0, bytes.length, offset < 0 ? SIZE_BYTES + offset : offset);
  closeSync(fd);
  return copy;
}

const found = (image: string): Promise<FileSystem | null> => cleanFileSystem(onThisThread, image, BigInt(SIZE_BYTES));

/** The type, if blkid finds that and nothing else. */
function blkid(image: string): string | null {
  const { stdout } = spawnSync('blkid', ['-p', '-o', 'export', image], { encoding: 'utf8' });
  return /^USAGE=filesystem$/m.test(stdout) ? (/^TYPE=(.*)$/m.exec(stdout)?.[1] ?? null) : null;
}

const latin = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Linux RAID of version 1: magic, version, and where it lies, which blkid checks. */
function raid(sector: number): Buffer {
  const block = Buffer.alloc(512);
  block.writeUInt32LE(0xa92b4efc, 0);
  block.writeUInt32LE(1, 4);
  block.writeUInt32LE(sector, 144);
  return block;
}

const ZFS = Buffer.alloc(8);
ZFS.writeBigUInt64LE(0x00bab10cn);

const RAID_AT_END = SIZE_BYTES / 512 - 16;

/** Each somewhere where it spoils no superblock of ours. */
const FOREIGN: readonly (readonly [name: string, offset: number, bytes: Buffer])[] = [
  ['a second header of LUKS', 16 * KIB, latin('SKUL\xba\xbe')],
  ['swap', 4 * KIB - 10, latin('SWAPSPACE2')],
  ['swap of large pages', 64 * KIB - 10, latin('SWAPSPACE2')],
  ['RAID 1.2', 4 * KIB, raid(8)],
  ['RAID 1.0', RAID_AT_END * 512, raid(RAID_AT_END)],
  ['RAID 0.90', -64 * KIB, raid(0)],
  ['a backup of GPT', -512, latin('EFI PART')],
  ['JFS', 32 * KIB, latin('JFS1')],
  ['ISO 9660', 32 * KIB + 1, latin('CD001')],
  ['UDF', 32 * KIB + 1, latin('BEA01')],
  ['ReiserFS', 8 * KIB + 52, latin('ReIsEr2Fs')],
  ['ZFS', 132 * KIB, ZFS],
  ['OCFS2', 8 * KIB, latin('OCFSV2')],
  ['UFS', 8 * KIB + 1372, Buffer.from([0x54, 0x19, 1, 0])],
  ['bcache', 4 * KIB + 24, Buffer.from('c68573f64e1a45ca8265f57f48ba6d81', 'hex')],
];

/** Where ext4 and btrfs have nothing. */
const BEFORE: readonly (readonly [name: string, offset: number, bytes: Buffer])[] = [
  ['LUKS', 0, luksHeader('5d6d5e0e-0f7f-4d4c-9c0f-5a2e3f1b7a11').subarray(0, KIB)],
  ['a partition table', 0, partitionTable()],
  ['LVM', 512, latin('LABELONE\x01')],
  ['any byte', 700, Buffer.from([1])],
];

for (const type of FILE_SYSTEMS) {
  test(`a new ${type} is found, and none beside the trace of anything else`, async () => {
    const image = made(type);
    assert.equal(await found(image), type);
    assert.equal(blkid(image), type);
    const others = FILE_SYSTEMS.filter((other) => other !== type).map((other) => {
      const bytes = Buffer.alloc(4 * KIB);
      const [offset, length] = { ext4: [KIB, KIB], xfs: [0, 512], btrfs: [64 * KIB, 4 * KIB] }[other];
      const fd = openSync(made(other), 'r');
      readSync(fd, bytes, 0, length ?? 0, offset ?? 0);
      closeSync(fd);
      return [other, offset ?? 0, bytes.subarray(0, length)] as const;
    });
    // The superblock of an xfs begins where that of no other does, and takes the place of nothing.
    const beside = type === 'xfs' ? others : [...others, ...BEFORE];
    for (const [name, offset, bytes] of [...FOREIGN, ...beside])
      assert.equal(await found(planted(image, offset, bytes)), null, `${type} beside ${name}`);
  });

  test(`a ${type} with one changed byte is found only where blkid finds no other file system`, async () => {
    const image = made(type);
    const random = seededRandom(`clean ${type}`);
    let alone = 0;
    for (let round = 0; round < 40; round += 1) {
      const offset = random.below(2) === 0 ? random.below(72 * KIB) : random.below(5 * KIB);
      const changed = planted(image, offset, Buffer.from([random.below(256)]));
      const is = await found(changed);
      if (is === null) continue;
      alone += 1;
      // A superblock whose checksum is wrong is found, and refused when it is mounted.
      const other = blkid(changed) ?? type;
      assert.equal(other, type, `byte ${offset}`);
    }
    assert.ok(alone > 0);
  });
}

test('an ext4 is left to fsck as long as fsck has anything to do', async () => {
  const image = made('ext4');
  const with_ = (program: string, ...args: string[]): string => {
    const copy = path();
    execFileSync('cp', ['--sparse=always', image, copy]);
    execFileSync(program, [...args, copy], { stdio: 'pipe' });
    return copy;
  };
  const set = (field: string, value: string): string =>
    with_('debugfs', '-w', '-R', `set_super_value ${field} ${value}`);
  assert.equal(await found(set('mnt_count', '7')), 'ext4');
  for (const [field, value] of [
    ['state', '0'],
    ['state', '3'],
    ['error_count', '1'],
    ['last_orphan', '12'],
    ['checkinterval', '86400'],
  ] as const) {
    assert.equal(await found(set(field, value)), null, `${field} ${value}`);
  }
  assert.equal(await found(with_('tune2fs', '-c', '3', '-C', '3')), null);
  assert.equal(await found(with_('tune2fs', '-c', '3', '-C', '2')), 'ext4');
});

test('a device with the magic of ext4 and no ext4 is not found', async () => {
  for (const image of [made('ext2'), made('ext3'), made('ext4', '-O', 'journal_dev')]) {
    assert.equal(await found(image), null);
    assert.notEqual(blkid(image), 'ext4');
  }
});

test('a file system in use, or cut off in it, is not clean', { skip: skipUnlessRoot }, async () => {
  const image = made('ext4');
  const device = attachLoop(image);
  const target = workspace.path('mount');
  execFileSync('mkdir', ['-p', target]);
  const cut = path();
  try {
    await mount({ source: device, target, fsType: 'ext4', options: [] });
    writeFileSync(`${target}/file`, 'content', { flush: true });
    execFileSync('sync', ['-f', target]);
    copyFileSync(image, cut);
    assert.equal(await found(image), null);
    await unmount(target);
  } finally {
    detachLoop(device);
  }
  assert.equal(await found(image), 'ext4');
  assert.equal(await found(cut), null);
});

test('a device that is too small, shorter than it should be or of random bytes has no file system', async () => {
  const image = made('ext4');
  assert.equal(await cleanFileSystem(onThisThread, image, BigInt(SIZE_BYTES) + 4096n), null);
  assert.equal(await cleanFileSystem(onThisThread, image, 65536n), null);
  const random = seededRandom('clean file systems');
  for (let round = 0; round < 20; round += 1) {
    const bytes = Buffer.alloc(512 * KIB);
    for (let at = 0; at < 300 * KIB; at += 1 + random.below(64)) bytes[at] = random.below(256);
    if (round % 2 === 0) bytes.write('XFSB');
    const file = path();
    writeFileSync(file, bytes);
    assert.equal(await cleanFileSystem(onThisThread, file, BigInt(bytes.length)), null);
  }
});
