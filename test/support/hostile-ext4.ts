/**
 * ext4 images that a tenant could write to cost the node's fsck.ext4 all the time or memory there is. Both
 * have one indirect block whose pointers all lead back to itself, so that 64 MiB stand for a thousand TiB.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const BLOCK_BYTES = 1024;
const POINTERS = BLOCK_BYTES / 4;
const INODE_BYTES = 128;
/** Any free block. */
const LOOP_BLOCK = 60_000;
const FIRST_FREE_INODE = 12;
const SUPERBLOCK = 1024;
const FEATURES = '^extent,^metadata_csum,^has_journal,^64bit,^uninit_bg,^flex_bg,^resize_inode';

/** `time`: files of 16 GiB, each of which takes a third of a second. `memory`: directories of 64 MiB. */
export type Cost = 'time' | 'memory';

/** Overwrites a device or file of 64 MiB. It is marked as not cleanly unmounted, so that `-p` checks it. */
export function writeHostileExt4(path: string, cost: Cost): void {
  const options = ['-F', '-q', '-b', `${BLOCK_BYTES}`, '-I', `${INODE_BYTES}`, '-O', FEATURES];
  execFileSync('mkfs.ext4', [...options, path], { stdio: 'ignore' });
  const image = readFileSync(path);
  const inodes = image.readUInt32LE(SUPERBLOCK + 40);
  const table = image.readUInt32LE(SUPERBLOCK + BLOCK_BYTES + 8) * BLOCK_BYTES;
  for (let at = 0; at < BLOCK_BYTES; at += 4) {
    image.writeUInt32LE(LOOP_BLOCK, LOOP_BLOCK * BLOCK_BYTES + at);
  }
  const inode = cost === 'time' ? hugeFile() : hugeDirectory();
  for (let number = FIRST_FREE_INODE; number <= inodes; number += 1) {
    inode.copy(image, table + (number - 1) * INODE_BYTES);
  }
  image.writeUInt16LE(0, SUPERBLOCK + 58);
  writeFileSync(path, image, { flag: 'r+' });
}

function hugeFile(): Buffer {
  return inode(0o100644, 12 + POINTERS + POINTERS ** 2 + POINTERS ** 3, 14);
}

function hugeDirectory(): Buffer {
  const directory = inode(0o040755, 12 + POINTERS + POINTERS ** 2, 13);
  directory.writeUInt32LE(LOOP_BLOCK, 40);
  return directory;
}

/** Of that many blocks by its size, with the loop as its double (13) or triple (14) indirect block. */
function inode(mode: number, blocks: number, slot: number): Buffer {
  const bytes = Buffer.alloc(INODE_BYTES);
  const size = blocks * BLOCK_BYTES;
  bytes.writeUInt16LE(mode, 0);
  bytes.writeUInt32LE(size % 2 ** 32, 4);
  bytes.writeUInt32LE(Math.floor(size / 2 ** 32), 108);
  for (const time of [8, 12, 16]) bytes.writeUInt32LE(1_700_000_000, time);
  bytes.writeUInt16LE(1, 26);
  bytes.writeUInt32LE(LOOP_BLOCK, 40 + slot * 4);
  return bytes;
}
