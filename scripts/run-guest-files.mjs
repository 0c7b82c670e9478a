/**
 * Runs compiled test files in one guest. Should that end before the last file, because a test hangs, the
 * process dies or the kernel panics, the file that ran has failed, and the rest run in a new guest. Ends
 * with "N passed, N failed, N skipped".
 *
 *   node scripts/run-guest-files.mjs [NODE OPTION...] FILE...      called by scripts/test-guest
 */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { parseTally } from './suite/tally.mjs';

const options = process.argv.slice(2).filter((word) => word.startsWith('--'));
let files = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const sum = { passed: 0, failed: 0, skipped: 0 };
while (files.length > 0) {
  const { status, lines, ended } = await runGuest(files);
  const tally = parseTally(lines.join('\n'));
  sum.passed += tally?.passed ?? count(lines, '✔');
  sum.failed += tally?.failed ?? count(lines, '✖');
  sum.skipped += tally?.skipped ?? count(lines, '﹣');
  if (tally === undefined || (status !== 0 && tally.failed === 0)) {
    const [file, ...rest] = files.slice(ended);
    console.log(`✖ the guest ended with status ${status} in ${sourceOf(file) ?? 'its end'}`);
    sum.failed += 1;
    files = rest;
  } else files = [];
}
console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
process.exit(sum.failed === 0 ? 0 : 1);

/** Its output, and how many of the files have ended. */
async function runGuest(compiled) {
  const guest = ['--mem', '2G', '--smp', '1', '--disk', '8G'];
  const more = (process.env['BLOCKDELTA_GUEST_OPTIONS'] ?? '').split(' ').filter((word) => word !== '');
  const reporter = '--test-reporter=./scripts/suite/reporter.mjs';
  const command = [process.execPath, ...options, reporter, 'scripts/run-in-one-process.mjs', ...compiled];
  // The reporter would write there what runs; in the guest there is no such directory.
  const { BLOCKDELTA_TEST_RUNNING: _, ...env } = process.env;
  const child = spawn('scripts/run-in-guest', [...guest, ...more, '--', 'scripts/guest-command', ...command], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const lines = [];
  let ended = 0;
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith('ended: ')) {
      ended += 1;
      continue;
    }
    lines.push(line);
    // The sum of all guests takes the place of this one's.
    if (parseTally(line) === undefined) console.log(line);
  }
  return { status: await exited, lines, ended };
}

function count(lines, mark) {
  return lines.filter((line) => line.trimStart().startsWith(`${mark} `)).length;
}

function sourceOf(compiled) {
  return compiled?.replace(/^\.test-build\/(.*)\.js$/, '$1.ts');
}
