/**
 * Volumes whose content was written by a tenant with raw access: superblocks that choose devices and options
 * for the host. Each is written to a raw volume, as a tenant would, and then staged as a file system.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fsyncSync, openSync, readdirSync, readFileSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { basename } from 'node:path';
import { newVolumeId, nodeKey, uuidOf } from '../../src/base/csi/handles.js';
import type { VolumeRecord } from '../../src/driver/catalogue/records.js';
import { useNode } from '../integration/node/node-fixture.js';
import { blockCapability, mountCapability } from '../support/csi-client.js';
import { partitionTable } from '../support/foreign-signatures.js';
import { MIB } from '../support/records.js';
import { namesHolder, refused } from '../support/refusal.js';
import { NOTHING, test } from '../support/running-plugin.js';

const node = useNode('tenant-images');

const SIZES = { ext4: 64n * MIB, xfs: 320n * MIB, btrfs: 256n * MIB };
type FileSystem = keyof typeof SIZES;
const PLACES = { ext4: 1024, xfs: 0, btrfs: 65536 };

/** A volume whose raw device somebody has written to. */
async function written(
  sizeBytes: bigint,
  write: (device: string) => void,
  fields: Partial<VolumeRecord> = {},
): Promise<VolumeRecord> {
  const volume = await node.makeVolume({ sizeBytes, ...fields });
  await whileRaw(volume, async (device) => write(device));
  return (await node.catalogue.volumeById(volume.volumeId)) ?? volume;
}

/** Has a volume staged raw while the work runs. */
async function whileRaw(volume: VolumeRecord, work: (device: string) => Promise<void>): Promise<void> {
  await node.stage(volume, blockCapability());
  try {
    await work(await node.attachedPath(volume));
  } finally {
    await node.unstage(volume);
  }
}

const tool = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
const FORCE = { ext4: '-F', xfs: '-f', btrfs: '-f' };
const make = (type: FileSystem, device: string, ...options: string[]): string =>
  tool(`mkfs.${type}`, FORCE[type], '-q', ...options, device);
const uuid = (): string => newVolumeId(nodeKey('test-node')).slice(-36);

/** Changes the superblock as with a hex editor, without updating the checksum of ext4 and btrfs. */
function patch(device: string, type: FileSystem, change: (block: Buffer) => void): void {
  const file = openSync(device, 'r+');
  try {
    const block = Buffer.alloc(4096);
    readSync(file, block, 0, block.length, PLACES[type]);
    change(block);
    writeSync(file, block, 0, block.length, PLACES[type]);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Staging it is refused, and nothing but what was held before is held afterwards. */
async function refusal(volume: VolumeRecord, type: FileSystem, message: RegExp): Promise<void> {
  const before = node.held();
  const told = new RegExp(`${volume.volumeId}.*${message.source}`);
  const answer = node.stage(volume, mountCapability(type));
  await refused(answer, 'FAILED_PRECONDITION', told);
  assert.deepEqual(node.held(), before);
}

async function inForce(volume: VolumeRecord): Promise<string[]> {
  const name = basename(await node.attachedPath(volume));
  return readFileSync(`/proc/fs/ext4/${name}/options`, 'utf8').trim().split('\n');
}

test('H1: an ext4 that asks the kernel to panic, or a copy of one, is mounted with errors=remount-ro', async () => {
  const volume = await written(SIZES.ext4, (device) => make('ext4', device, '-e', 'panic'));
  const sourceSnapshotId = await node.snapshot(volume);
  const copy = { sizeBytes: SIZES.ext4, sourceSnapshotId, pristine: false };
  for (const one of [volume, await node.makeVolume(copy)]) {
    for (const mode of ['SINGLE_NODE_WRITER', 'SINGLE_NODE_READER_ONLY']) {
      await node.stage(one, mountCapability('ext4', mode));
      assert.ok((await inForce(one)).includes('errors=remount-ro'));
      await node.unstage(one);
    }
  }
});

test('H1: errors=continue has no effect on a volume that was created when it was allowed', async () => {
  const parameters = { mountOptions: 'errors=continue,dev,noatime' };
  const volume = await node.staged(mountCapability('ext4'), { parameters });
  assert.ok((await inForce(volume)).includes('errors=remount-ro'));
  await node.unstage(volume);
  const flags = mountCapability('ext4', 'SINGLE_NODE_WRITER', ['errors=continue']);
  await refused(node.stage(volume, flags), 'INVALID_ARGUMENT', /mount_flags/);
});

test('H1: an ext4 whose journal is another volume is refused, and the other volume stays free', async () => {
  const journal = await node.makeVolume({ sizeBytes: SIZES.ext4 });
  await whileRaw(journal, async (path) => {
    make('ext4', path, '-b', '4096', '-O', 'journal_dev');
    const volume = await written(SIZES.ext4, (device) => {
      make('ext4', device, '-b', '4096', '-J', `device=${path}`);
    });
    await refusal(volume, 'ext4', /a journal on another device/);
  });
  assert.deepEqual(node.held(), NOTHING);
  await refusal(journal, 'ext4', /jbd/);
});

/** What tune2fs sets. */
const TUNED: readonly [string, string, RegExp][] = [
  ['-E', 'mount_opts=data=journal', /mount options of its own.*tune2fs -E/],
  ...['journal_data', 'journal_data_writeback', 'nobarrier', 'debug'].map((option): [string, string, RegExp] => [
    '-o',
    option,
    new RegExp(`${option}.*tune2fs -o`),
  ]),
  ['-O', 'mmp', /the feature mmp/],
];
for (const [flag, value, message] of TUNED) {
  test(`H1: an ext4 with tune2fs ${flag} ${value} is refused before any tool or mount reads it`, async () => {
    const volume = await written(SIZES.ext4, (device) => {
      make('ext4', device);
      tool('tune2fs', flag, value, device);
    });
    await refusal(volume, 'ext4', message);
  });
}

type Change = (block: Buffer) => unknown;
const word = (value: number, at: number): Change => {
  return (block) => block.writeUInt32LE(value, at);
};
const byte = (value: number, at: number): Change => {
  return (block) => block.writeUInt8(value, at);
};
const PATCHED: readonly [FileSystem, string, Change, RegExp][] = [
  ...[0x5c, 0x60, 0x64].map((at): (typeof PATCHED)[number] => [
    ...(['ext4', `unknown features at ${at}`] as const),
    (block) => block.writeUInt32LE((block.readUInt32LE(at) | 0x40000000) >>> 0, at),
    /features 0x40000000/,
  ]),
  ['ext4', 'a size beyond its device', word(0x7fffffff, 4), /bytes on a device of 67108864/],
  ['ext4', 'a block size of 2^4294967295 KiB', word(0xffffffff, 0x18), /a block size over 64 KiB/],
  ['ext4', 'no blocks', word(0, 0x20), /groups without blocks/],
  ['xfs', 'a log elsewhere', (block) => block.fill(0, 48, 56), /a log on another device/],
  ['xfs', 'a realtime section', byte(1, 23), /a realtime section/],
  ['xfs', 'unknown features', byte(0x40, 216), /features 0x40000000/],
  ['btrfs', 'two devices', byte(2, 136), /a file system of 2 devices/],
  ['btrfs', 'the mark of a seed', byte(1, 60), /a seed for other devices/],
  ['btrfs', 'a change of its id', byte(8, 60), /was not finished/],
  ['btrfs', 'unknown features', byte(0x40, 191), /features 0x40000000/],
  ['btrfs', 'a size beyond its device', byte(1, 118), /on a device of/],
];

for (const [type, title, change, message] of PATCHED) {
  test(`H1: ${type} with ${title} in its superblock is refused`, async () => {
    const volume = await written(SIZES[type], (device) => {
      make(type, device);
      patch(device, type, change);
    });
    await refusal(volume, type, message);
  });
}

test('H1: an ext4 whose journal contains another superblock is refused after its replay', async () => {
  const block = node.workspace.path('block');
  const commands = node.workspace.path('commands');
  writeFileSync(commands, `jo\njw -b 0 ${block}\njc\n`);
  const volume = await written(SIZES.ext4, (device) => {
    make('ext4', device, '-b', '4096', '-U', uuid());
    tool('tune2fs', '-E', 'mount_opts=data=journal', device);
    tool('dd', `if=${device}`, `of=${block}`, 'bs=4096', 'count=1', 'status=none');
    tool('tune2fs', '-E', 'mount_opts=', device);
    tool('debugfs', '-w', '-f', commands, device);
  });
  await refusal(volume, 'ext4', /mount options of its own/);
  await whileRaw(volume, async (device) => {
    tool('tune2fs', '-E', 'mount_opts=', device);
  });
  await node.stage(volume, mountCapability('ext4'));
  assert.ok((await inForce(volume)).includes('data=ordered'));
  await node.unstage(volume);
});

test('H1: an XFS made with a real log or realtime device on another volume is refused', async () => {
  const other = await node.makeVolume({ sizeBytes: SIZES.xfs });
  await whileRaw(other, async (path) => {
    for (const options of [
      ['-l', `logdev=${path},size=64m`],
      ['-m', 'rmapbt=0,reflink=0', '-r', `rtdev=${path}`],
    ]) {
      const volume = await written(SIZES.xfs, (device) => make('xfs', device, ...options));
      await refusal(volume, 'xfs', /on another device/);
    }
  });
  assert.deepEqual(node.held(), NOTHING);
});

test('H1: a btrfs over two volumes, or a seed for others, is refused', async () => {
  const other = await node.makeVolume({ sizeBytes: SIZES.btrfs });
  let volume = other;
  await whileRaw(other, async (path) => {
    volume = await written(SIZES.btrfs, (device) => make('btrfs', device, '-d', 'single', '-m', 'single', path));
  });
  const seed = await written(SIZES.btrfs, (device) => {
    make('btrfs', device);
    tool('btrfstune', '-S', '1', device);
  });
  await refusal(volume, 'btrfs', /2 devices/);
  await refusal(other, 'btrfs', /2 devices/);
  await refusal(seed, 'btrfs', /a seed/);
});

test('H1: a btrfs with the fsid of a mounted one is refused, copy or not', async () => {
  const first = await node.staged(mountCapability('btrfs'), { sizeBytes: SIZES.btrfs });
  const second = await node.makeVolume({ sizeBytes: SIZES.btrfs });
  const source = await node.attachedPath(first);
  const uuid = tool('blkid', '-p', '-s', 'UUID', '-o', 'value', source).trim();
  await whileRaw(second, async (device) => {
    tool('dd', `if=${source}`, `of=${device}`, 'bs=1M', 'conv=fsync', 'status=none');
  });
  await refusal(second, 'btrfs', new RegExp(uuid));
  await node.unstage(first);
  assert.deepEqual(node.held(), NOTHING);
  await node.stage(second, mountCapability('btrfs'));
  await refusal(first, 'btrfs', /its id/);
  await node.unstage(second);
});

test('H1: a btrfs cannot take the id that another volume has or will have', async () => {
  const victim = await node.makeVolume({ sizeBytes: SIZES.btrfs });
  const thief = await written(SIZES.btrfs, (device) => make('btrfs', device, '-U', uuidOf(victim.volumeId)));
  await refusal(thief, 'btrfs', /its id/);
  const harmless = await written(SIZES.btrfs, (device) => make('btrfs', device, '-U', uuid()));
  await node.stage(harmless, mountCapability('btrfs'));
  await node.unstage(harmless);
});

/** What mkfs of older, newer and other distributions makes, and what users may have chosen. */
const ACCEPTED: readonly [FileSystem, string, string[]][] = [
  ['ext4', 'of 2010', ['-I', '128', '-O', '^64bit,^metadata_csum,uninit_bg']],
  ['ext4', 'of 2024', ['-O', 'metadata_csum_seed,orphan_file']],
  ['ext4', 'without a journal', ['-O', '^has_journal']],
  ['ext4', 'of blocks of 1 KiB', ['-b', '1024']],
  ['ext4', 'of blocks of 2 KiB', ['-b', '2048']],
  ['ext4', 'with clusters', ['-O', 'bigalloc']],
  ['ext4', 'with quotas', ['-O', 'quota,project']],
  ['ext4', 'with meta block groups', ['-O', 'meta_bg,^resize_inode']],
  [
    'ext4',
    'with inline data, large directories and fast commits',
    ['-O', 'inline_data,large_dir,ea_inode,fast_commit'],
  ],
  ['ext4', 'for encryption and verity', ['-O', 'encrypt,verity,stable_inodes']],
  ['ext4', 'with sparse_super2', ['-O', 'sparse_super2']],
  ['ext4', 'that folds cases', ['-O', 'casefold']],
  ['xfs', 'of version 4', ['-m', 'crc=0']],
  ['xfs', 'of 2018', ['-m', 'rmapbt=0,reflink=0,bigtime=0,inobtcount=0']],
  ['xfs', 'with all features', ['-m', 'rmapbt=1', '-i', 'nrext64=1']],
  ['xfs', 'of blocks of 1 KiB', ['-b', 'size=1024']],
  ['xfs', 'of sectors of 4 KiB on a device of 512 bytes', ['-s', 'size=4096']],
  ['btrfs', 'of 2015', ['-O', '^no-holes,^extref', '-R', '^free-space-tree']],
  ['btrfs', 'of mixed groups', ['--mixed']],
  ['btrfs', 'with quotas', ['-R', 'quota']],
  ['btrfs', 'with nodes of 4 KiB and blake2', ['-n', '4096', '--csum', 'blake2']],
];

for (const [type, title, options] of ACCEPTED) {
  test(`H1: ${type} ${title}, made on the raw volume, is mounted`, async (context) => {
    const volume = await written(SIZES[type], (device) => make(type, device, ...options));
    try {
      await node.stage(volume, mountCapability(type));
    } catch (thrown) {
      // By the kernel, where it lacks the feature: the plugin has let it through.
      assert.match(String(thrown), /cannot be mounted on/);
      context.skip('this kernel cannot mount such a file system');
      return;
    }
    await node.unstage(volume);
    assert.deepEqual(node.held(), NOTHING);
  });
}

test('H1: a journal mode requested by the operator takes effect, and none is needed in the superblock', async () => {
  const volume = await node.makeVolume({ parameters: { mountOptions: 'data=journal,barrier=0' } });
  for (let time = 0; time < 2; time += 1) {
    await node.stage(volume, mountCapability('ext4'));
    assert.ok((await inForce(volume)).includes('data=journal'));
    await node.unstage(volume);
  }
});

test('H1: a raw device that a process still has open is not mounted as a file system', async () => {
  const volume = await written(SIZES.ext4, (device) => make('ext4', device));
  await node.stage(volume, blockCapability());
  const device = await node.attachedPath(volume);
  const holder = spawn('sh', ['-c', `exec 3<>${device}; echo open; read line`], { stdio: ['pipe', 'pipe', 'inherit'] });
  try {
    await once(holder.stdout, 'data');
    const who = new RegExp(`${device} is open in process ${holder.pid} \\(sh\\)`);
    for (const call of [
      () => node.unstage(volume, {}, { deadline: Date.now() + 1000 }),
      () => node.stage(volume, mountCapability('ext4')),
    ]) {
      await namesHolder(call, who);
    }
  } finally {
    holder.stdin.end('\n');
    await once(holder, 'close');
  }
  await node.stage(volume, mountCapability('ext4'));
  await node.unstage(volume);
  assert.deepEqual(node.held(), NOTHING);
});

/** For udev see test/guest. */
test('H5: the kernel is never asked to scan a volume for partitions', async () => {
  const { volumeId } = await node.makeVolume();
  const path = node.workspace.path('xfs.pool', 'volumes', volumeId);
  writeFileSync(path, partitionTable(), { flag: 'r+' });
  const { devicePath } = await node.backend.attachments.attach(volumeId, { readOnly: false });
  const device = basename(devicePath);
  assert.equal(readFileSync(`/sys/block/${device}/loop/partscan`, 'utf8'), '0\n');
  const parts = readdirSync(`/sys/block/${device}`).filter((name) => name.startsWith(`${device}p`));
  assert.deepEqual(parts, []);
  await node.backend.attachments.detach(volumeId);
});
