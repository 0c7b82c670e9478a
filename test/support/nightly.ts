/**
 * Whether this is scripts/test --nightly or --weekly (BLOCKDELTA_TEST_NIGHTLY=1). A test file that names this, or
 * seededRandom, runs there too: random tests take new seeds, and loops of tests have more rounds.
 */
export const isNightly = process.env['BLOCKDELTA_TEST_NIGHTLY'] === '1';

/** For tests of nightly runs alone. */
export function atNight<R extends (...test: never[]) => void>(register: R): R {
  return isNightly ? register : ((() => undefined) as unknown as R);
}

/** The first ones of each kind; all of them in a nightly run. */
export function oneOfEach<T>(items: readonly T[], kindOf: (item: T) => string): readonly T[] {
  const seen = new Set<string>();
  return items.filter((item) => isNightly || seen.size !== seen.add(kindOf(item)).size);
}
