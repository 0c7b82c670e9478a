/**
 * Seeds for the generator of the conformance suite, so that a random test can be repeated. The seed is
 * BLOCKDELTA_TEST_SEED; without it, it is derived from the test's label, or new in nightly runs.
 */
import { createHash, randomInt } from 'node:crypto';
import { Random } from '../../src/tools/random.js';
import { isNightly } from './nightly.js';

export { Random };

/** Prints the seed, so that a failure can be repeated with BLOCKDELTA_TEST_SEED. */
export function seededRandom(label: string): Random {
  const seed = givenSeed() ?? (isNightly ? randomInt(2 ** 31) : seedOf(label));
  console.log(`# ${label}: BLOCKDELTA_TEST_SEED=${seed}`);
  return new Random(seed);
}

function givenSeed(): number | undefined {
  const given = process.env['BLOCKDELTA_TEST_SEED'];
  if (given === undefined) return undefined;
  if (!/^\d{1,10}$/.test(given)) throw new Error(`BLOCKDELTA_TEST_SEED is not a whole number: ${given}`);
  return Number(given);
}

function seedOf(label: string): number {
  return createHash('sha256').update(label).digest().readUInt32LE(0);
}
