/** The process of a Writer. Its arguments are the device and how many blocks it writes to. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { quantile } from '../../../src/tools/bench/statistics.js';
import { BLOCK_BYTES } from '../storage/fragments.js';
import type { Gaps, Question } from './writer.js';

const NS_PER_MS = 1e6;
/** Prime: visits the blocks in an order that no read-ahead or merge of requests follows. */
const STRIDE = 7919;

const [device = '', blocks = '1'] = process.argv.slice(2);
const file = await open(device, constants.O_RDWR | constants.O_DSYNC);
const content = Buffer.alloc(BLOCK_BYTES, 0x5a);
let finished: bigint[] = [];

process.on('disconnect', () => process.exit());
process.on('message', ({ from, to }: Question) => {
  void answer(BigInt(from), BigInt(to));
});

/** Waits for the write that was in flight at the end. */
async function answer(from: bigint, to: bigint): Promise<void> {
  while ((finished.at(-1) ?? 0n) < to) await new Promise((resolve) => setTimeout(resolve, 1));
  const all = finished;
  finished = [];
  const times: number[] = [];
  for (let index = 1; index < all.length; index += 1) {
    const [begin, end] = [all[index - 1] ?? 0n, all[index] ?? 0n];
    if (end >= from && begin <= to) times.push(Number(end - begin) / NS_PER_MS);
  }
  const gaps: Gaps = {
    writes: times.length,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    longest: quantile(times, 1),
  };
  process.send?.(gaps);
}

for (let index = 0; ; index += 1) {
  const block = 2 * ((index * STRIDE) % Number(blocks));
  content.writeUInt32LE(index >>> 0, 0);
  await file.write(content, 0, BLOCK_BYTES, block * BLOCK_BYTES);
  finished.push(process.hrtime.bigint());
  if (index === 0) process.send?.('writing');
}
