import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  assertMountFlags,
  parseMkfsOptions,
  parseMountOptions,
  parseStoredMountOptions,
} from '../../../src/driver/host/file-system-options.js';
import { FILE_SYSTEMS, type FileSystem } from '../../../src/driver/host/file-systems.js';
import { makeArguments } from '../../../src/driver/host/filesystem.js';
import { throwsRefusal } from '../../support/refusal.js';

const FIELD = "parameters['mkfsOptions']";

test('mkfs options that tune a file system become arguments', () => {
  const cases: [FileSystem, string][] = [
    ['ext4', '-b 4096 -i 65536 -I 512 -m 0.5 -N 1000 -T largefile4 -e remount-ro'],
    ['ext4', '-O ^has_journal,64bit -E stride=16,stripe_width=64,lazy_itable_init=0,nodiscard'],
    ['xfs', '-i size=1024,maxpct=50 -m reflink=0,crc=1,rmapbt=1 -n size=8k -d su=64k,sw=4 -s size=4k'],
    ['btrfs', '-m single -d dup -n 16k -O ^no-holes --csum xxhash'],
  ];
  for (const [type, text] of cases) {
    assert.deepEqual(parseMkfsOptions(text, FIELD, type), text.split(' '), text);
    assert.deepEqual(parseMkfsOptions(`  ${text}\t`, FIELD, null), text.split(' '), text);
  }
  assert.deepEqual(parseMkfsOptions('', FIELD, 'ext4'), []);
});

/** Options that are refused, divided by `|`. */
const REFUSED: Readonly<Record<FileSystem, string>> = {
  ext4:
    '-F|-n|-S|-d /etc|-J device=/dev/sda|-L x|-U random|-c|-l /x|-q|-E offset=4096|-E root_owner=a:b|' +
    '-E mmp_update_interval=1|-O journal_dev|-e panic|-b 4096 -b 1024|-b|-b 4096;reboot|-m 51|-i -1|' +
    '/dev/sda|-b=4096|-O ^|-O sparse_super2|-O ^resize_inode|-E stride|-E stride=|-E discard=1|-T ../x|' +
    '-b 4096\0|-E ,|-E __proto__=1',
  xfs: '-f|-N|-d file,name=/x|-d name=/dev/sda|-l logdev=/dev/sda|-L x|-p /x|-b 4096',
  btrfs: '-f|-r /etc|--rootdir /etc|-m raid1|-U x|-O zoned|-b 1|-i size=512',
};

test('an mkfs option that is not listed, or whose value is not, is INVALID_ARGUMENT', () => {
  for (const [type, options] of Object.entries(REFUSED)) {
    for (const text of options.split('|')) {
      const parse = () => parseMkfsOptions(text, FIELD, type as FileSystem);
      throwsRefusal(parse, 'INVALID_ARGUMENT', /mkfsOptions/);
    }
  }
  const named = /'-F' is not an option for mkfs.ext4; supported are, for ext4: -b -i -I/;
  throwsRefusal(() => parseMkfsOptions('-F x', FIELD, 'ext4'), 'INVALID_ARGUMENT', named);
  throwsRefusal(() => parseMkfsOptions('-z 1', FIELD, null), 'INVALID_ARGUMENT', /ext4.*xfs.*btrfs/);
});

test('mount options that tune a mount are served, each for the file systems that have it', () => {
  const common = 'noatime,relatime,nodiratime,nodev,nosuid,noexec';
  for (const type of [...FILE_SYSTEMS, null]) {
    assert.deepEqual(parseMountOptions(common, 'f', type), common.split(','));
  }
  for (const [type, text] of [
    ['ext4', 'commit=30,data=writeback,errors=remount-ro,barrier=1,nobarrier,discard,nodiscard'],
    ['xfs', 'inode64,logbsize=256k,logbufs=8,allocsize=64m,discard,nouuid'],
    ['btrfs', 'compress=zstd:3,compress-force=lzo,compress,ssd,discard=async,space_cache=v2,commit=5'],
  ] as const) {
    assert.deepEqual(parseMountOptions(text, 'f', type), text.split(','));
    assert.deepEqual(parseMountOptions(text, 'f', null), text.split(','));
    for (const other of FILE_SYSTEMS.filter((one) => one !== type)) {
      throwsRefusal(() => parseMountOptions(text, 'f', other), 'INVALID_ARGUMENT', /^f: '/);
    }
  }
});

test('a mount option that makes the mount another one is INVALID_ARGUMENT', () => {
  const others =
    'bind loop loop=/dev/loop3 remount x-mount.mkdir X-mount.owner=1 move rshared offset=4096 helper=x ' +
    'subvol=/x device=/dev/sda ro rw errors=panic journal_path=/x logdev=/dev/sda norecovery noload ' +
    'degraded sb=131072 commit= commit commit=1s context=x noatime=1 constructor';
  for (const option of [...others.split(' '), 'noatime\nbind']) {
    throwsRefusal(() => parseMountOptions(`noatime,${option}`, 'f', null), 'INVALID_ARGUMENT');
    if (option === 'ro' || option === 'rw') continue;
    throwsRefusal(() => assertMountFlags([option], 'f', null), 'INVALID_ARGUMENT', /^f\[0\]/);
  }
});

test('a volume made with options that are refused today is mounted without them', () => {
  const stored = 'dev,noatime,errors=continue';
  assert.deepEqual(parseStoredMountOptions(stored, 'f', 'ext4'), ['noatime']);
  throwsRefusal(() => parseMountOptions('dev', 'f', 'ext4'), 'INVALID_ARGUMENT');
  throwsRefusal(() => parseMountOptions('errors=continue', 'f', null), 'INVALID_ARGUMENT');
  throwsRefusal(() => parseStoredMountOptions('bind', 'f', 'ext4'), 'INVALID_ARGUMENT');
});

test('a mount flag of a capability is named by its position, never by its text', () => {
  assertMountFlags(['noatime,discard', 'errors=remount-ro', 'ro', ''], 'flags', 'ext4');
  throwsRefusal(
    () => assertMountFlags(['noatime', 'nodev,password=hunter2'], 'flags', 'ext4'),
    'INVALID_ARGUMENT',
    /^flags\[1\] (?!.*(hunter2|password))/,
  );
});

test('a feature that is newer than the oldest supported kernel is switched off where mkfs knows it and nobody asks for it', () => {
  const off = (type: FileSystem, known: string, ...options: string[]): string =>
    makeArguments(type, known, options)
      .join(' ')
      .replace(/^-f -q -K ?/, '');
  const [older, newer] = ['[-i sparse=0|1]', '[-i nrext64=0|1,exchange=0|1] [-n parent=0|1]'];
  assert.equal(off('xfs', older), '');
  assert.equal(off('xfs', newer), '-i nrext64=0 -i exchange=0 -n parent=0');
  const asked = ['-i', 'size=1024,nrext64=1'];
  assert.equal(off('xfs', newer, ...asked), '-i exchange=0 -n parent=0 -i size=1024,nrext64=1');
  assert.equal(off('btrfs', 'no-holes (default=5.15)'), '');
  assert.equal(off('btrfs', 'block-group-tree (default=6.19)'), '-O ^block-group-tree');
  const tree = ['-O', 'block-group-tree'];
  assert.equal(off('btrfs', 'block-group-tree (default=6.19)', ...tree), tree.join(' '));
});
