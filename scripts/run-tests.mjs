/**
 * Runs compiled test files with node:test and sums them up in one line:
 * "N passed, N failed, N skipped". Prints failures whole, skips with their reason, and the seeds.
 *
 * Two files at a time where there are two processors: each has directories, devices and sockets of its
 * own.
 */
import { availableParallelism } from 'node:os';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { Tally } from './test-tally.mjs';

const files = process.argv.slice(2);
const tally = new Tally(files);

const stream = run({ files, concurrency: Math.min(2, availableParallelism()) });
stream.on('test:pass', (event) => tally.count(event, 'passed'));
stream.on('test:fail', (event) => tally.count(event, 'failed'));
stream.compose(new spec()).pipe(process.stdout);
stream.on('end', () => {
  console.log(`${tally}`);
  process.exitCode = tally.failed === 0 ? 0 : 1;
});
