/**
 * Whether a write-ahead log that SQLite is about to read has lost committed transactions in its middle.
 *
 * SQLite takes what it can read up to the first frame whose checksum is wrong, and says nothing of the
 * rest: that is right for the last transaction, which a power cut may tear, and for no other, because a
 * commit is on the disk before the next one is written. So a second commit behind a wrong frame is a
 * proof of damage. Format: https://sqlite.org/fileformat2.html#the_write_ahead_log
 */
import { readFileSync } from 'node:fs';
import { errorCode } from '../base/errors.js';

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC = 0x377f0682;
/** What of a header its own checksum covers; of a frame's header it is the first eight. */
const COVERED_BYTES = 24;
const COVERED_FRAME_BYTES = 8;

/** What is wrong with the log beside that database; null: nothing that a power cut could not have done. */
export function walDamage(databaseFile: string): string | null {
  const log = readOrEmpty(`${databaseFile}-wal`);
  // Blocks that were given to the file and never written.
  if (log.length < HEADER_BYTES || log.subarray(0, HEADER_BYTES).every((byte) => byte === 0)) {
    return null;
  }
  const magic = log.readUInt32BE(0);
  const checksum = new Checksum(magic === MAGIC + 1);
  const isHeader = (magic & ~1) >>> 0 === MAGIC;
  if (!isHeader || !checksum.takes(log.subarray(0, COVERED_BYTES), log, COVERED_BYTES)) {
    return 'its write-ahead log has a wrong header';
  }
  const lost = commitsBehindDamage(log, checksum);
  return lost < 2 ? null : `its write-ahead log is damaged before ${lost} committed transactions`;
}

/** Commits of this log, as opposed to older ones that it overwrites, behind the first wrong frame. */
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
  return checksum.takes(frame.subarray(FRAME_HEADER_BYTES), frame, 16);
}

/** Over all frames, each one's goes on from the one before. */
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

  /** Adds the bytes, and says whether the sums are those that stand at that place. */
  takes(bytes: Buffer, stored: Buffer, at: number): boolean {
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
