/** The test runner's summary names each failed test with its cause, so that the last lines of a log say why. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const OUTPUT = `✔ the first (1.0ms)
✖ the second (2.0ms)
  AssertionError: 1 !== 2
      at somewhere
▶ a suite
  ✖ its test (3.0ms)
    Error: broken
  ﹣ skipped (0.1ms) # no root
1 passed, 2 failed, 1 skipped
`;

/** The runner is plain JavaScript and is loaded as such. */
function failedTests(maxLines: number): string[] {
  const script = `
    import { failedTests } from './scripts/suite/tally.mjs';
    console.log(JSON.stringify(failedTests(process.argv[1], Number(process.argv[2]))));`;
  const args = ['--input-type=module', '-e', script, OUTPUT, `${maxLines}`];
  const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return JSON.parse(stdout) as string[];
}

test('the summary repeats each failed test and its cause, and nothing else', () => {
  assert.deepEqual(failedTests(10), [
    '✖ the second (2.0ms)',
    '  AssertionError: 1 !== 2',
    '      at somewhere',
    '  ✖ its test (3.0ms)',
    '    Error: broken',
  ]);
});

test('the summary cuts a long cause', () => {
  assert.deepEqual(failedTests(2), [
    '✖ the second (2.0ms)',
    '  AssertionError: 1 !== 2',
    '  ✖ its test (3.0ms)',
    '    Error: broken',
  ]);
});
