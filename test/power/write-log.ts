/**
 * Reads what the kernel's dm-log-writes has recorded, and writes it to an image (format:
 * Documentation/admin-guide/device-mapper/log-writes.rst and drivers/md/dm-log-writes.c).
 *
 * The kernel logs a write when a flush that follows it begins, and a FUA write when it is complete. So the image
 * of all entries up to one that flushes holds what a disk must hold after a power cut there.
 */
import assert from 'node:assert/strict';
import { closeSync, openSync, readSync, writeSync } from 'node:fs';

const MAGIC = 0x6a736677736872n;
const FLUSH = 1n;
const FUA = 2n;
const DISCARD = 4n;
const MARK = 8n;
const ENTRY_BYTES = 32;

export interface LogEntry {
  /** After it, the disk holds all entries up to this one. */
  isDurable: boolean;
  /** Null: it is no mark. */
  mark: string | null;
  isDiscard: boolean;
  /** On the disk. */
  offset: number;
  bytes: number;
  /** In the log. */
  dataOffset: number;
}

export function readWriteLog(path: string): LogEntry[] {
  const fd = openSync(path, 'r');
  try {
    const sector = read(fd, 0, 512);
    assert.equal(sector.readBigUInt64LE(0), MAGIC, `${path} is no log of dm-log-writes`);
    assert.equal(sector.readBigUInt64LE(8), 1n, `the version of the log ${path}`);
    const count = Number(sector.readBigUInt64LE(16));
    const sectorBytes = sector.readUInt32LE(24);
    const entries: LogEntry[] = [];
    for (let at = sectorBytes; entries.length < count; ) {
      const head = read(fd, at, sectorBytes);
      const [first = 0n, sectors = 0n, flags = 0n, dataBytes = 0n] = [0, 8, 16, 24].map((offset) =>
        head.readBigUInt64LE(offset),
      );
      const isMark = (flags & MARK) !== 0n;
      const isDiscard = (flags & DISCARD) !== 0n;
      const bytes = Number(sectors) * sectorBytes;
      const mark = head.subarray(ENTRY_BYTES, ENTRY_BYTES + Number(dataBytes)).toString();
      entries.push({
        isDurable: (flags & (FLUSH | FUA)) !== 0n,
        mark: isMark ? mark.replace(/\0+$/, '') : null,
        isDiscard,
        offset: Number(first) * sectorBytes,
        bytes,
        dataOffset: at + sectorBytes,
      });
      at += sectorBytes + (isDiscard ? 0 : bytes);
    }
    return entries;
  } finally {
    closeSync(fd);
  }
}

/** Writes entries to an image. Discarded bytes become zeros. */
export function applyEntries(logPath: string, imagePath: string, entries: readonly LogEntry[]): void {
  const log = openSync(logPath, 'r');
  const image = openSync(imagePath, 'r+');
  try {
    for (const { offset, bytes, dataOffset, isDiscard } of entries) {
      const data = isDiscard ? Buffer.alloc(bytes) : read(log, dataOffset, bytes);
      writeSync(image, data, 0, bytes, offset);
    }
  } finally {
    closeSync(log);
    closeSync(image);
  }
}

function read(fd: number, offset: number, length: number): Buffer {
  const buffer = Buffer.alloc(length);
  assert.equal(readSync(fd, buffer, 0, length, offset), length, `the log ends at ${offset}`);
  return buffer;
}
