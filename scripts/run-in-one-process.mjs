/**
 * Runs compiled test files one after the other in this one process: for machines on which starting a
 * process takes seconds, such as an emulated one. Each file is a suite of its own, so that its hooks
 * run around its own tests. The last test looks for what the others left behind on the machine.
 *
 *   node --test-reporter=./scripts/one-process-reporter.mjs scripts/run-in-one-process.mjs FILE...
 */
import assert from 'node:assert/strict';
import { release } from 'node:os';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { leftOnMachine } from './left-behind.mjs';
import { LAST_TEST } from './one-process-reporter.mjs';

console.log(`Linux ${release()}, Node.js ${process.version}`);
for (const file of process.argv.slice(2)) {
  describe(file, async () => {
    await import(pathToFileURL(file).href);
  });
}
test(LAST_TEST, () => assert.deepEqual(leftOnMachine(), []));
