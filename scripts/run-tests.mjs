/**
 * Runs compiled test files one after the other in this checkout as it is, without building:
 *
 *   node scripts/run-tests.mjs .test-build/test/unit/errors.test.js...
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const reporter = fileURLToPath(new URL('./suite/reporter.mjs', import.meta.url));
for (const file of process.argv.slice(2)) {
  const { status } = spawnSync(process.execPath, [`--test-reporter=${reporter}`, file], {
    stdio: 'inherit',
  });
  if (status !== 0) process.exitCode = 1;
}
