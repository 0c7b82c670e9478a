/**
 * Detects a write-ahead log that has lost committed transactions in its middle.
 *
 * SQLite reads a log up to the first frame with a wrong checksum and silently ignores the rest. That is
 * right for the last transaction, which a power failure may tear, but for no other: each commit is on
 * the disk before the next one is written. A second commit behind a wrong frame therefore proves damage.
 * Format: https://sqlite.org/fileformat2.html#the_write_ahead_log
 */
import { readFileSync } from 'node:fs';
import { errorCode } from '../base/errors.js';

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;
/** How much of the log's header and of a frame's header their checksums cover. */
const COVERED_BYTES = 24;
const COVERED_FRAME_BYTES = 8;

/** Describes the damage to the log of that database. Null if there is none beyond what a power failure can do. */
export function walDamage(databaseFile: string): string | null {
  return logDamage(readOrEmpty(`${databaseFile}-wal`));
}

/** The same for a log that was read whole. */
export function logDamage(log: Buffer): string | null {
  // A header of zeros: blocks were allocated to the file and never written.
  if (log.length < HEADER_BYTES || log.subarray(0, HEADER_BYTES).every((byte) => byte === 0)) {
    return null;
  }
  const magic = log.readUInt32BE(0);
  const checksum = new Checksum(magic === MAGIC + 1);
  const isHeader = (magic & ~1) >>> 0 === MAGIC;
  if (!isHeader || !checksum.addAndMatch(log.subarray(0, COVERED_BYTES), log, COVERED_BYTES)) {
    return 'its write-ahead log has a wrong header';
  }
  const lost = commitsBehindDamage(log, checksum);
  return lost < 2 ? null : `its write-ahead log is damaged before ${lost} committed transactions`;
}

/**
 * Counts the commits behind the first wrong frame. The salts tell this log's frames from those of an older
 * log that it overwrites.
 */
function commitsBehindDamage(log: Buffer, checksum: Checksum): number {
  const salts = log.subarray(16, 24);
  const frameBytes = FRAME_HEADER_BYTES + log.readUInt32BE(8);
  let isWhole = true;
  let lost = 0;
  for (let at = HEADER_BYTES; at + frameBytes <= log.length; at += frameBytes) {
    const frame = log.subarray(at, at + frameBytes);
    const isOurs = frame.subarray(8, 16).equals(salts);
    isWhole = isWhole && isOurs && isFrameWhole(frame, checksum);
    if (!isWhole && isOurs && frame.readUInt32BE(4) !== 0) lost += 1;
  }
  return lost;
}

function isFrameWhole(frame: Buffer, checksum: Checksum): boolean {
  checksum.add(frame.subarray(0, COVERED_FRAME_BYTES));
  return checksum.addAndMatch(frame.subarray(FRAME_HEADER_BYTES), frame, 16);
}

/** SQLite's running checksum: each frame's value continues from the frame before. */
class Checksum {
  #first = 0;
  #second = 0;

  constructor(private readonly isBigEndian: boolean) {}

  add(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; at += 8) {
      this.#first = (this.#first + this.#word(bytes, at) + this.#second) >>> 0;
      this.#second = (this.#second + this.#word(bytes, at + 4) + this.#first) >>> 0;
    }
  }

  /** Adds the bytes and compares the sums with those stored at an offset of `stored`. */
  addAndMatch(bytes: Buffer, stored: Buffer, at: number): boolean {
    this.add(bytes);
    return stored.readUInt32BE(at) === this.#first && stored.readUInt32BE(at + 4) === this.#second;
  }

  #word(bytes: Buffer, at: number): number {
    return this.isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at);
  }
}

function readOrEmpty(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return Buffer.alloc(0);
    throw thrown;
  }
}
