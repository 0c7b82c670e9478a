/**
 * Runs compiled test files with node:test and sums them up in one line:
 * "N passed, N failed, N skipped". Prints failures whole, skips with their reason, and the seeds.
 *
 * One file after the other, or as many at a time as BLOCKDELTA_TEST_AT_ONCE says: each has directories,
 * devices and sockets of its own. Two at once take half the time, and find what only a busy machine shows.
 */
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { Tally } from './test-tally.mjs';

const files = process.argv.slice(2);
const tally = new Tally(files);

const stream = run({ files, concurrency: Number(process.env['BLOCKDELTA_TEST_AT_ONCE'] ?? 1) });
stream.on('test:pass', (event) => tally.count(event, 'passed'));
stream.on('test:fail', (event) => tally.count(event, 'failed'));
stream.compose(new spec()).pipe(process.stdout);
stream.on('end', () => {
  console.log(`${tally}`);
  process.exitCode = tally.failed === 0 ? 0 : 1;
});
