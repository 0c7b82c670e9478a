/**
 * Writes the ranges of a list to a text file in the form that nbdkit reads: "offset size" on each line, rounded
 * outwards to a grain. Knows nothing of the list's origin.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { CsiError } from '../../base/errors.js';
import { type TransferPlan, TransferPlanner } from '../../base/transfer-plan.js';
import { type GrainCost, GrainMerger } from '../client/grain.js';
import type { Entry } from '../client/list.js';
import { openPlain } from '../nbd/plain-file.js';

export interface RangesFile {
  readonly path: string;
  /** The numbers of ranges and bytes, before and after the ranges were rounded to the grain. */
  readonly cost: GrainCost;
  readonly grainBytes: bigint;
  /** The digest of the file. */
  readonly sha256: string;
  readonly plan: TransferPlan;
  /** As in TransferPlanner. */
  bytesIn(size: bigint): bigint;
}

export interface RangesOptions {
  /** Names the owner of the ranges in messages. */
  of: string;
  path: string;
  grainBytes: bigint;
  /** The size of the device, known once a batch was read. No range goes beyond this size. */
  sizeBytes(): bigint;
  /** Takes requests that copy at most 1/32 more than the ranges, however many they are. */
  isTight?: boolean | undefined;
  /** Called with the end of the last range that was read. */
  onProgress?: ((position: bigint) => void) | undefined;
}

const { O_CREAT, O_TRUNC, O_WRONLY } = constants;

/** nbdkit keeps the whole list in memory, about 24 bytes a range. */
const MAX_RANGES = 8_000_000;
const FLUSH_CHARACTERS = 1 << 18;

/**
 * Writes the file and flushes it.
 *
 * @throws RESOURCE_EXHAUSTED if there are too many ranges to copy, and any error from reading the entries
 */
export async function writeRanges(
  entries: AsyncIterable<readonly Entry[]>,
  { of, path, grainBytes, sizeBytes, isTight = false, onProgress }: RangesOptions,
): Promise<RangesFile> {
  const merger = new GrainMerger(grainBytes);
  const planner = new TransferPlanner(grainBytes);
  const hash = createHash('sha256');
  const file = await openPlain(path, O_WRONLY | O_CREAT | O_TRUNC);
  let text = '';
  const put = (ranges: readonly Entry[]): void => {
    for (const { offset, size } of ranges) {
      planner.add(offset, size);
      text += `${offset} ${size}\n`;
    }
  };
  const flush = async (): Promise<void> => {
    hash.update(text);
    await file.appendFile(text);
    text = '';
  };
  try {
    for await (const batch of entries) {
      put(merger.add(batch, sizeBytes()));
      if (merger.cost.mergedRanges > MAX_RANGES) throw tooMany(of, grainBytes);
      if (text.length > FLUSH_CHARACTERS) await flush();
      const last = batch.at(-1);
      if (last !== undefined) onProgress?.(last.offset + last.size);
    }
    put(merger.finish());
    await flush();
    await file.sync();
  } finally {
    await file.close();
  }
  const { cost } = merger;
  return {
    path,
    cost,
    grainBytes,
    sha256: hash.digest('hex'),
    plan: planner.plan(isTight ? cost.mergedBytes + cost.mergedBytes / 32n : undefined),
    bytesIn: (size) => planner.bytesIn(size),
  };
}

/** Yields the ranges of a file that writeRanges has written. */
export async function* readRanges(path: string): AsyncGenerator<Entry[]> {
  const file = await openPlain(path);
  try {
    const buffer = Buffer.alloc(FLUSH_CHARACTERS);
    let rest = '';
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) return;
      const lines = (rest + buffer.toString('latin1', 0, bytesRead)).split('\n');
      rest = lines.pop() ?? '';
      yield lines.map((line) => {
        const [offset = 0n, size = 0n] = line.split(' ').map(BigInt);
        return { offset, size };
      });
    }
  } finally {
    await file.close();
  }
}

function tooMany(of: string, grainBytes: bigint): CsiError {
  return CsiError.resourceExhausted(
    `the list of ${of} has more than ${MAX_RANGES} ranges of multiples of ${grainBytes} bytes, more than nbdkit can ` +
      'hold: give a larger --grain',
  );
}
