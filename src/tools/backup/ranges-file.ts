/**
 * The ranges of a list as a text file, "offset size" a line, in the form that nbdkit reads, rounded outwards to
 * a grain. Knows nothing of where the list comes from.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { CsiError } from '../../base/errors.js';
import { type GrainCost, GrainMerger } from '../client/grain.js';
import type { Entry } from '../client/list.js';
import { type TransferPlan, TransferPlanner } from '../nbd/transfer-plan.js';

export interface RangesFile {
  readonly path: string;
  /** The ranges and their bytes, before and after they were rounded to the grain. */
  readonly cost: GrainCost;
  readonly grainBytes: bigint;
  /** Of the file. */
  readonly sha256: string;
  readonly plan: TransferPlan;
}

export interface RangesOptions {
  /** What has the ranges, for messages. */
  of: string;
  path: string;
  grainBytes: bigint;
  /** Of the device, once a batch was read: no range goes beyond it. */
  sizeBytes(): bigint;
  /** Called with the end of the last range that was read. */
  onProgress?: ((position: bigint) => void) | undefined;
}

const { O_CREAT, O_NOFOLLOW, O_TRUNC, O_WRONLY } = constants;

/** nbdkit keeps the whole list in memory, about 24 bytes a range. */
const MAX_RANGES = 8_000_000;
const FLUSH_CHARACTERS = 1 << 18;

/**
 * Writes the file and flushes it.
 *
 * @throws RESOURCE_EXHAUSTED if there are too many ranges to copy, and what reading the entries throws
 */
export async function writeRanges(
  entries: AsyncIterable<readonly Entry[]>,
  { of, path, grainBytes, sizeBytes, onProgress }: RangesOptions,
): Promise<RangesFile> {
  const merger = new GrainMerger(grainBytes);
  const planner = new TransferPlanner();
  const hash = createHash('sha256');
  const file = await open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600);
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
  return { path, cost: merger.cost, grainBytes, sha256: hash.digest('hex'), plan: planner.plan() };
}

function tooMany(of: string, grainBytes: bigint): CsiError {
  return CsiError.resourceExhausted(
    `the list of ${of} has more than ${MAX_RANGES} ranges of multiples of ${grainBytes} bytes, more than nbdkit can ` +
      'hold: give a larger --grain',
  );
}
