/**
 * Judges a list byte by byte: whether the list covers every byte that differs, and how many equal bytes it covers as
 * well. Images hold what the suite has written or read. Chunks that were never touched are equal in all images of one
 * volume and are not compared.
 */
import { ConformanceFailure } from './failure.js';
import { Cover, coverage, describeRanges, type Entry, totalBytes } from './ranges.js';

export const CHUNK_BYTES = 65536;
/** Differences are counted in whole sectors. */
const SECTOR_BYTES = 512;
const ZEROS = Buffer.alloc(CHUNK_BYTES);

export interface Image {
  readonly sizeBytes: number;
  /** Chunks that were written or read, by index. */
  readonly known: ReadonlyMap<number, Buffer>;
  /** The bytes of any other chunk; null if it was never touched. */
  elsewhere(index: number): Buffer | null;
}

export function zeroImage(sizeBytes: number): Image {
  return { sizeBytes, known: new Map(), elsewhere: () => ZEROS };
}

/** An image whose other chunks are zero, as read from a device. */
export function fullImage(sizeBytes: number, known: ReadonlyMap<number, Buffer>): Image {
  return { sizeBytes, known, elsewhere: () => ZEROS };
}

/** Reads zeros beyond the end of the image, so that images of different sizes can be compared. */
export function chunkOf(image: Image, index: number): Buffer | null {
  if (index * CHUNK_BYTES >= image.sizeBytes) return ZEROS;
  return image.known.get(index) ?? image.elsewhere(index);
}

export interface Judgement {
  /** Counted in whole sectors. */
  readonly differingBytes: number;
  readonly reportedBytes: number;
  readonly missed: readonly Entry[];
}

export interface Comparison {
  readonly base: Image;
  readonly target: Image;
  /** Whether a byte that is zero in the target may be left out. */
  readonly zerosMayBeMissing?: boolean;
}

export function judge(comparison: Comparison, entries: readonly Entry[]): Judgement {
  const { base, target } = comparison;
  const cover = new Cover(entries);
  const indices = [...new Set([...base.known.keys(), ...target.known.keys()])].sort((a, b) => a - b);
  const missed: Entry[] = [];
  let differingBytes = 0;
  for (const index of indices) {
    if (index * CHUNK_BYTES >= target.sizeBytes) continue;
    const before = chunkOf(base, index);
    const after = chunkOf(target, index);
    if (before === null || after === null || before === after) continue;
    const found = judgeChunk(comparison, { before, after, start: index * CHUNK_BYTES, cover });
    differingBytes += found.differingBytes;
    missed.push(...found.missed);
  }
  const reportedBytes = Number(totalBytes(coverage(entries)));
  return { differingBytes, reportedBytes, missed: coverage(missed) };
}

function judgeChunk(
  { zerosMayBeMissing = false }: Comparison,
  at: { before: Buffer; after: Buffer; start: number; cover: Cover },
): { differingBytes: number; missed: Entry[] } {
  const { before, after, start, cover } = at;
  const missed: Entry[] = [];
  let differingBytes = 0;
  for (let offset = 0; offset < CHUNK_BYTES; offset += SECTOR_BYTES) {
    const end = offset + SECTOR_BYTES;
    if (before.compare(after, offset, end, offset, end) === 0) continue;
    differingBytes += SECTOR_BYTES;
    if (cover.holds(start + offset, start + end)) continue;
    // A driver that misses much misses millions of bytes, so they are kept as runs.
    let missedFrom: number | null = null;
    for (let byte = offset; byte <= end; byte += 1) {
      const isMissed =
        byte < end &&
        before[byte] !== after[byte] &&
        !(zerosMayBeMissing && after[byte] === 0) &&
        !cover.holds(start + byte, start + byte + 1);
      if (isMissed) missedFrom ??= byte;
      else if (missedFrom !== null) {
        missed.push({ offset: BigInt(start + missedFrom), size: BigInt(byte - missedFrom) });
        missedFrom = null;
      }
    }
  }
  return { differingBytes, missed };
}

/** Fails if the list misses a byte that differs. Returns the judgement. */
export function expectSound(subject: string, comparison: Comparison, entries: readonly Entry[]): Judgement {
  const judgement = judge(comparison, entries);
  if (judgement.missed.length === 0) return judgement;
  throw new ConformanceFailure(
    subject,
    'every byte that differs to be reported',
    `${totalBytes(judgement.missed)} bytes that differ are not in the list: ${describeRanges(judgement.missed)}`,
  );
}

interface Reporter {
  figure(name: string, value: number, unit: string): void;
}

export class OverReport {
  #differing = 0;
  #reported = 0;

  add({ differingBytes, reportedBytes }: Judgement): void {
    this.#differing += differingBytes;
    this.#reported += reportedBytes;
  }

  /** Reported bytes per byte that differs; 1 is perfect. */
  get factor(): number {
    return this.#differing === 0 ? 0 : this.#reported / this.#differing;
  }

  report({ figure }: Reporter): void {
    figure('differing bytes', this.#differing, 'bytes');
    figure('reported bytes', this.#reported, 'bytes');
    this.reportFactor({ figure });
  }

  reportFactor({ figure }: Reporter): void {
    figure('over-report factor', this.factor, 'reported per differing byte');
  }
}
