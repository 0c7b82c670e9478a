/**
 * Whether this is scripts/test --nightly or --weekly (BLOCKDELTA_TEST_NIGHTLY=1). A test file that names this, or
 * seededRandom, runs there too: random tests take new seeds, and loops of tests have more rounds.
 */
export const isNightly = process.env['BLOCKDELTA_TEST_NIGHTLY'] === '1';
