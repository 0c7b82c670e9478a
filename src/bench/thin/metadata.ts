/** The metadata of the rows thin-*: an origin with ten million blocks and two snapshots of it. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { packagePath } from '../../src/base/package-root.js';

export const MAPPED_BLOCKS = 10_000_000;
export const BLOCK_BYTES = 65_536;
export const VOLUME_BYTES = BigInt(MAPPED_BLOCKS) * BigInt(BLOCK_BYTES);
/** The two snapshots; device 1 is the origin. */
export const BASE_DEVICE = 2;
export const TARGET_DEVICE = 3;

export interface ThinCase {
  name: string;
  words: string;
  pattern: 'random' | 'clustered' | 'sequential';
  /** Part of the mapped blocks that was written between the two snapshots. */
  changed: number;
  /** How many times faster than thin_delta we promise to be. */
  inMemory: number;
  direct: number;
}

export const THIN_CASES: readonly [ThinCase, ...ThinCase[]] = [
  {
    name: '1%-random',
    words: '1 % of the blocks changed, at random',
    pattern: 'random',
    changed: 0.01,
    inMemory: 10,
    direct: 3,
  },
  {
    name: '0.1%-random',
    words: '0.1 % of the blocks changed, at random',
    pattern: 'random',
    changed: 0.001,
    inMemory: 50,
    direct: 1,
  },
  {
    name: '1%-clustered',
    words: '1 % of the blocks changed, in clusters of 64',
    pattern: 'clustered',
    changed: 0.01,
    inMemory: 500,
    direct: 15,
  },
  {
    name: '1%-sequential',
    words: '1 % of the blocks changed, one after the other',
    pattern: 'sequential',
    changed: 0.01,
    inMemory: 500,
    direct: 1,
  },
];

const run = promisify(execFile);
const GENERATOR = packagePath('scripts/make-thin-metadata');

/** Writes the file: nodes shared as a kernel shares them, three quarters full, scattered. */
export async function makeMetadata(
  path: string,
  { pattern, changed }: Pick<ThinCase, 'pattern' | 'changed'>,
  mappedBlocks = MAPPED_BLOCKS,
): Promise<void> {
  const options = { mapped: mappedBlocks, pattern, changed, snaps: 2 };
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  await run(GENERATOR, ['-o', path, ...words]);
}
