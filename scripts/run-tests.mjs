/**
 * Runs compiled test files one after the other with node:test and sums them up in one line:
 * "N passed, N failed, N skipped". Prints failures whole, skips with their reason, and the seeds.
 */
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

const files = process.argv.slice(2);
const counts = { passed: 0, failed: 0, skipped: 0 };
const skips = [];

const stream = run({ files, concurrency: 1 });
stream.on('test:pass', (event) => count(event, 'passed'));
stream.on('test:fail', (event) => count(event, 'failed'));
stream.compose(new spec()).pipe(process.stdout);
stream.on('end', () => {
  for (const { name, reason } of skips) console.log(`skipped: ${name}: ${reason}`);
  console.log(`${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exitCode = counts.failed === 0 ? 0 : 1;
});

/** Suites and files only hold tests; they count when they fail by themselves (a hook, a crash). */
function count(event, result) {
  if (event.skip !== undefined) {
    counts.skipped += 1;
    skips.push({ name: event.name, reason: event.skip === true ? 'no reason given' : event.skip });
    return;
  }
  const isContainer = event.details.type === 'suite' || files.includes(event.name);
  if (isContainer && (result === 'passed' || failedInside(event))) return;
  counts[result] += 1;
}

function failedInside(event) {
  return event.details.error?.failureType === 'subtestsFailed';
}
