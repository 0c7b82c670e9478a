/**
 * Reads write-ahead logs: detects one that has lost committed transactions in its middle, and puts a sound one into the
 * bytes of its database.
 *
 * SQLite reads a log up to the first frame with a wrong checksum and silently ignores the rest. That is
 * right for the last transaction, which a power failure may tear, but for no other: each commit is on
 * the disk before the next one is written. A second commit behind a wrong frame therefore proves damage.
 * Format: https://sqlite.org/fileformat2.html#the_write_ahead_log
 */
import { readFileSync } from 'node:fs';
import { errorCode } from '../../base/errors.js';

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
  if (isUnwritten(log)) return null;
  const magic = log.readUInt32BE(0);
  const checksum = new Checksum(magic === MAGIC + 1);
  const isHeader = (magic & ~1) >>> 0 === MAGIC;
  if (!isHeader || !checksum.addAndMatch(log.subarray(0, COVERED_BYTES), log, COVERED_BYTES)) {
    return 'its write-ahead log has a wrong header';
  }
  const lost = commitsBehindDamage(log, checksum);
  return lost < 2 ? null : `its write-ahead log is damaged before ${lost} committed transactions`;
}

/** The database with all that its log has committed, as SQLite itself would read the two. The log has no damage. */
export function withLog(main: Buffer, log: Buffer): Buffer {
  const { pages, pageBytes, pageCount } = committedPages(log);
  if (pageCount === 0) return main;
  const whole = Buffer.alloc(pageCount * pageBytes);
  main.copy(whole);
  for (const [number, page] of pages) page.copy(whole, (number - 1) * pageBytes);
  return whole;
}

/** The last committed content of each page, and how many pages the database has; 0: nothing was committed. */
function committedPages(log: Buffer) {
  const pages = new Map<number, Buffer>();
  if (isUnwritten(log)) return { pages, pageBytes: 0, pageCount: 0 };
  const checksum = new Checksum(log.readUInt32BE(0) === MAGIC + 1);
  checksum.add(log.subarray(0, COVERED_BYTES));
  let pageCount = 0;
  let open = new Map<number, Buffer>();
  for (const { frame, isOurs } of framesOf(log)) {
    if (!isOurs || !isFrameWhole(frame, checksum)) break;
    open.set(frame.readUInt32BE(0), frame.subarray(FRAME_HEADER_BYTES));
    const committed = frame.readUInt32BE(4);
    if (committed === 0) continue;
    for (const [number, page] of open) pages.set(number, page);
    open = new Map();
    pageCount = committed;
  }
  return { pages, pageBytes: log.readUInt32BE(8), pageCount };
}

/** A header of zeros: blocks were allocated to the file and never written. */
function isUnwritten(log: Buffer): boolean {
  return log.length < HEADER_BYTES || log.subarray(0, HEADER_BYTES).every((byte) => byte === 0);
}

/** The salts tell the frames of this log from those of an older one that it overwrites. */
function* framesOf(log: Buffer): Generator<{ frame: Buffer; isOurs: boolean }> {
  const salts = log.subarray(16, 24);
  const frameBytes = FRAME_HEADER_BYTES + log.readUInt32BE(8);
  for (let at = HEADER_BYTES; at + frameBytes <= log.length; at += frameBytes) {
    const frame = log.subarray(at, at + frameBytes);
    yield { frame, isOurs: frame.subarray(8, 16).equals(salts) };
  }
}

/** Counts the commits behind the first wrong frame. */
function commitsBehindDamage(log: Buffer, checksum: Checksum): number {
  let isWhole = true;
  let lost = 0;
  for (const { frame, isOurs } of framesOf(log)) {
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
