/**
 * The features in the superblock of a file system, and the first kernel that mounts each for writing. Read from the
 * bytes, because a tool that is older than the file system does not name what it has.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readSync } from 'node:fs';
import type { FileSystem } from '../../src/driver/host/file-systems.js';
import { checkoutText } from './checkout-text.js';

/** Type, word of the superblock, bit, name and kernel. */
const TABLE = `
ext4 compatible 2 has_journal 2.6
ext4 compatible 3 ext_attr 2.6
ext4 compatible 4 resize_inode 2.6
ext4 compatible 5 dir_index 2.6
ext4 compatible 12 orphan_file 5.15
ext4 incompatible 1 filetype 2.6
ext4 incompatible 2 needs_recovery 2.6
ext4 incompatible 6 extent 2.6
ext4 incompatible 7 64bit 2.6
ext4 incompatible 9 flex_bg 2.6
ext4 incompatible 13 metadata_csum_seed 4.4
ext4 read-only 0 sparse_super 2.6
ext4 read-only 1 large_file 2.6
ext4 read-only 3 huge_file 2.6
ext4 read-only 5 dir_nlink 2.6
ext4 read-only 6 extra_isize 2.6
ext4 read-only 10 metadata_csum 3.18
xfs read-only 0 finobt 3.16
xfs read-only 1 rmapbt 4.8
xfs read-only 2 reflink 4.9
xfs read-only 3 inobtcount 5.10
xfs incompatible 0 ftype 3.10
xfs incompatible 1 sparse 4.2
xfs incompatible 3 bigtime 5.10
xfs incompatible 5 nrext64 5.19
xfs incompatible 6 exchange 6.10
xfs incompatible 7 parent 6.10
btrfs read-only 0 free-space-tree 4.5
btrfs read-only 1 free-space-tree-valid 4.9
btrfs read-only 3 block-group-tree 6.1
btrfs incompatible 0 mixed-backref 2.6
btrfs incompatible 2 mixed-groups 2.6
btrfs incompatible 5 big-metadata 3.4
btrfs incompatible 6 extref 3.7
btrfs incompatible 8 skinny-metadata 3.10
btrfs incompatible 9 no-holes 3.14
`;

const KNOWN = new Map(
  [...TABLE.matchAll(/^(\S+ \S+ \d+) (\S+) (\S+)$/gm)].map(([, bit = '', name = '', kernel = '']) => [
    bit,
    { name, kernel },
  ]),
);

/** Where the superblock lies, where its words of features are, and how large and in which order their bytes are. */
const PLACES = {
  ext4: { at: 1024, words: [0x5c, 0x60, 0x64], bytes: 4, isBig: false },
  xfs: { at: 0, words: [208, 216, 212], bytes: 4, isBig: true },
  btrfs: { at: 65536, words: [172, 188, 180], bytes: 8, isBig: false },
} as const;
const WORDS = ['compatible', 'incompatible', 'read-only'];

const OLDEST = /needs Linux (\d+\.\d+) or later/.exec(checkoutText('docs/limits.md'))?.[1];

/** Names of the features; where the table lacks one, its word and bit. */
export function featuresOf(type: FileSystem, path: string): string[] {
  return bitsOf(type, path).map((bit) => KNOWN.get(bit)?.name ?? bit);
}

/** Fails for each feature that the oldest supported kernel does not mount, or that the table lacks. */
export function assertMountable(type: FileSystem, path: string): void {
  assert.ok(OLDEST !== undefined, 'docs/limits.md names the oldest supported kernel');
  const bits = bitsOf(type, path);
  assert.ok(bits.length > 5, `${path} has the features of ${type}: ${bits}`);
  for (const bit of bits) {
    const { name, kernel } = KNOWN.get(bit) ?? {};
    assert.ok(
      kernel !== undefined,
      `mkfs.${type} makes a feature that the table in test/support/file-system-features.ts lacks: ${bit}; ` +
        'add it with the first kernel that mounts it',
    );
    assert.ok(
      kernel.localeCompare(OLDEST, 'en', { numeric: true }) <= 0,
      `mkfs.${type} makes ${name}, for Linux ${kernel} and newer, and the oldest supported one is ${OLDEST}; ` +
        'switch it off in src/driver/host/filesystem.ts',
    );
  }
}

function bitsOf(type: FileSystem, path: string): string[] {
  const { at, words, bytes, isBig } = PLACES[type];
  const block = Buffer.alloc(1024);
  const descriptor = openSync(path, 'r');
  readSync(descriptor, block, 0, block.length, at);
  closeSync(descriptor);
  return words.flatMap((offset, index) => {
    const field = Buffer.from(block.subarray(offset, offset + bytes));
    const word = BigInt(`0x${(isBig ? field : field.reverse()).toString('hex')}`);
    const bits = Array.from({ length: bytes * 8 }, (_, bit) => bit);
    return bits.filter((bit) => ((word >> BigInt(bit)) & 1n) === 1n).map((bit) => `${type} ${WORDS[index]} ${bit}`);
  });
}
