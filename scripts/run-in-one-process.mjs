/**
 * Runs compiled test files one after the other in this one process: for machines on which starting a
 * process takes seconds, such as an emulated one, and that this run has for itself. Each file is a suite
 * of its own, with a temporary directory of its own. After each a test looks for what the file has left
 * behind, and takes it away from those that follow.
 *
 *   node --test-reporter=./scripts/suite/reporter.mjs scripts/run-in-one-process.mjs FILE...
 *
 * $BLOCKDELTA_GUEST_PROGRESS is a file to which what runs is written, for whoever watches this process:
 * the file, the test. Says "ended: FILE" after each.
 */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, beforeEach, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { leftUnder, mappedDevices, removeMapped, removeUnder } from './left-behind.mjs';

/** A process whose last test has ended closes what it has open meanwhile, on a slow machine too. */
const ENDING_MS = 60_000;
const root = tmpdir();

console.log(`Linux ${release()}, Node.js ${process.version}`);
tell('the test files', 'their loading');
const loading = [];
// What a file makes when it is loaded is made before any has a directory of its own.
test('the files are loaded', async () => {
  await new Promise(setImmediate);
  await Promise.allSettled(loading);
});
for (const [index, compiled] of process.argv.slice(2).entries()) {
  const file = compiled.replace(/^\.test-build\/(.*)\.js$/, '$1.ts');
  const directory = join(root, `${index}`);
  describe(file, async () => {
    before(() => {
      tell(file, 'what comes before its tests');
      mkdirSync(directory);
      process.env['TMPDIR'] = directory;
    });
    beforeEach(({ name }) => tell(file, name));
    // Here and not in another function's context, which says to which suite its tests belong.
    const module = import(pathToFileURL(compiled).href);
    loading.push(module);
    await module;
  });
  test(`nothing is left behind by ${file}`, () => {
    const left = [...leftUnder(directory), ...mappedDevices()];
    left.push(...removeUnder(directory));
    removeMapped();
    console.log(`ended: ${file}`);
    assert.deepEqual(left, []);
  });
}
test('the process can end', async () => {
  const { closeSharedThreads } = await import('../.test-build/test/support/shared-threads.js');
  await closeSharedThreads();
  setTimeout(endForced, ENDING_MS).unref();
});

function tell(file, running) {
  const progress = process.env['BLOCKDELTA_GUEST_PROGRESS'];
  if (progress !== undefined) writeFileSync(progress, `${file}\n${running}\n`);
}

/** A handle that a test has not closed keeps the process alive. */
function endForced() {
  console.log(`FAILED: the process goes on because of ${process.getActiveResourcesInfo().join(', ')}`);
  process.exit(1);
}
