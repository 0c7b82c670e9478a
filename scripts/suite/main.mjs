/**
 * Runs tests; scripts/test is its usual name. Ends with how many steps of operations had a fault, and with one
 * line: "N passed, N failed, N skipped". A whole run has one more, which says what it cost on any machine.
 *
 *   scripts/test                       all tiers but nightly, and that nothing is left behind
 *   scripts/test --nightly             what that leaves out: test/nightly, and every test that takes new
 *                                      seeds or more rounds there; with patterns also other files
 *   scripts/test --weekly              what that leaves out in turn, because it takes as long as all the rest: every
 *                                      fault at every step, guest tests, power cuts
 *   scripts/test PATTERN...            test files of the tiers unit, memory and node whose path matches
 *   scripts/test --tier TIER           one tier, also with patterns: unit, memory, node or guest;
 *                                      checks (formats, lint, words) and native have no test files
 *   scripts/test --name REGEX          only tests whose name matches, or whose parent's does
 *   scripts/test --jobs N              as many at a time; two more than there are processors, because
 *                                      about a third of the time a test waits for a clock or a device
 *   scripts/test --record              writes the times of this run to scripts/suite/times.json
 *
 * Patterns are regular expressions. Random tests and fuzz targets run from fixed seeds, the same each
 * time, unless BLOCKDELTA_TEST_SEED or --nightly says otherwise; what fails prints how to repeat it.
 */
import { chmodSync, existsSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { killAll, leftUnder, removeUnder } from '../left-behind.mjs';
import { leftBy, leftByRun, removeNow } from './clean-up.mjs';
import { keyOf, planJobs, REFERENCE } from './jobs.mjs';
import { JobQueue } from './queue.mjs';
import { failedTests, parseTally } from './tally.mjs';
import { PLAIN_TIERS, TIERS } from './tiers.mjs';

const TIMES = fileURLToPath(new URL('./times.json', import.meta.url));
/** What ends by itself after the last test, such as a device that a killed process had open, has so long. */
const ENDING_MS = 60_000;
/** Of each failed test, or of a job that is no test, shown again at the end. */
const CAUSE_LINES = 25;

const options = parse();
if (options.nightly) process.env.BLOCKDELTA_TEST_NIGHTLY = '1';
let queue;
let runDirectory;
let isEnding = false;
// A second signal does not end the clean-up.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, interrupt);
process.exit((await run()) ? 0 : 1);

function parse() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      tier: { type: 'string', multiple: true, default: [] },
      name: { type: 'string' },
      jobs: { type: 'string', default: `${availableParallelism() + 2}` },
      nightly: { type: 'boolean', default: false },
      weekly: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    const head = readFileSync(fileURLToPath(import.meta.url), 'utf8').split('*/')[0];
    console.log(head.split('\n').slice(1).map((line) => line.replace(/^ \* ?/, '')).join('\n').trim());
    process.exit(0);
  }
  const unknown = values.tier.find((tier) => !TIERS.includes(tier));
  if (unknown !== undefined) usage(`no tier is named ${unknown}: ${TIERS.join(', ')}`);
  if (!/^[1-9]\d*$/.test(values.jobs)) usage('--jobs needs a whole number');
  const isWhole = values.tier.length === 0 && positionals.length === 0 && values.name === undefined;
  if (values.nightly && values.weekly) usage('--nightly and --weekly are two runs');
  // Both do more than a plain run; weekly is which part of that.
  const doesMore = values.nightly || values.weekly;
  const nightly = doesMore ? ['nightly'] : [];
  const selected = values.tier.length > 0 ? values.tier : ['unit', 'memory', 'node', ...nightly];
  return {
    ...values,
    nightly: doesMore,
    isWhole,
    tiers: isWhole ? [...PLAIN_TIERS, ...nightly] : selected,
    patterns: positionals.map((pattern) => new RegExp(pattern)),
    slots: Number(values.jobs),
  };
}

function usage(problem) {
  console.error(`${problem}; see scripts/test --help`);
  process.exit(2);
}

function interrupt() {
  if (isEnding) return;
  isEnding = true;
  const places = queue?.stop() ?? [];
  // Until what was killed has closed its files.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
  for (const { directory, mounts, cgroup } of places) {
    killAll(cgroup?.processes() ?? []);
    removeNow(directory, mounts.enter);
    cgroup?.remove();
  }
  if (runDirectory !== undefined) {
    printLeft(leftUnder(runDirectory));
    removeUnder(runDirectory);
  }
  process.exit(130);
}

/** Plans and runs the selected jobs, prints their output and the sum. */
async function run() {
  const { jobs, files } = planJobs(options);
  const sum = { passed: 0, failed: 0, skipped: 0 };
  if (jobs.every(({ kind }) => kind === 'build')) {
    console.log('no test file matches');
    return false;
  }
  // Every file of this run lies below it, and its path is in the environment of every process: so that
  // what is left behind can be told from what other runs and programs use.
  runDirectory = mkdtempSync(join(realpathSync(tmpdir()), 'bd-'));
  chmodSync(runDirectory, 0o755);
  const outcomes = [];
  const live = files.length === 1 && jobs.every(({ kind }) => kind !== 'check');
  queue = new JobQueue(jobs, {
    slots: options.slots,
    directory: runDirectory,
    live,
    ended: async (outcome, place) => {
      const left = place === undefined ? [] : await leftBy(place, ENDING_MS);
      outcomes.push({ ...outcome, left });
      add(sum, outcome, left);
      report(outcome, left, live, `${outcomes.length}/${jobs.length}`);
    },
  });
  await queue.run();
  const leftAtLast = await leftByRun(runDirectory, ENDING_MS);
  printLeft(leftAtLast);
  if (leftAtLast.length > 0) sum.failed += 1;
  if (options.name !== undefined && sum.passed + sum.failed + sum.skipped === 0) {
    console.log(`no test's name matches ${options.name}`);
    sum.failed = 1;
  }
  if (options.isWhole) {
    if ([leftAtLast, ...outcomes.map(({ left }) => left)].every(({ length }) => length === 0)) sum.passed += 1;
    printTimes(outcomes);
  }
  if (options.record) record(outcomes);
  const failures = outcomes.filter((outcome) => failuresOf(outcome) + outcome.left.length > 0);
  for (const failure of failures) reportAgain(failure);
  printCounts(outcomes);
  console.log(`\n${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
  if (options.isWhole) printCost(outcomes);
  return sum.failed === 0;
}

function failuresOf({ job, status, output }) {
  if (job.kind !== 'tests') return status === 0 ? 0 : 1;
  const tally = parseTally(output);
  const ran = tally === undefined ? 0 : tally.passed + tally.failed + tally.skipped;
  // A process that ended before its last line, or a file without tests, has not passed.
  const isEmpty = tally === undefined || (ran === 0 && options.name === undefined);
  return Math.max(tally?.failed ?? 0, status === 0 && !isEmpty ? 0 : 1);
}

function add(sum, outcome, left) {
  const { job, output } = outcome;
  const tally = job.kind === 'tests' ? parseTally(output) : undefined;
  sum.passed += tally?.passed ?? (job.kind === 'check' && outcome.status === 0 ? 1 : 0);
  sum.failed += failuresOf(outcome) + (left.length > 0 ? 1 : 0);
  sum.skipped += tally?.skipped ?? 0;
}

function report(outcome, left, live, count) {
  const { job, status, wallSeconds, cpuSeconds, notRun } = outcome;
  if (status === 0 && left.length === 0 && isSilent(outcome)) return;
  const took = `${wallSeconds.toFixed(1)} s, processor ${cpuSeconds.toFixed(1)} s`;
  console.log(`\n==> ${job.name}  [${count}; ${notRun === undefined ? took : `not run: ${notRun}`}]`);
  if (!live) process.stdout.write(outcome.output);
  if (status !== 0 && notRun === undefined) console.log(`FAILED: ${job.name}, exit status ${status}`);
  if (left.length > 0) console.log(`FAILED: ${job.name} has left behind:\n  ${left.join('\n  ')}`);
}

function printLeft(left) {
  if (left.length > 0) console.log(`\nFAILED: the run has left behind:\n  ${left.join('\n  ')}`);
}

/** At the end of a long output, where whoever reads only its last lines finds what failed and why. */
function reportAgain({ job, output, left }) {
  console.log(`FAILED: ${job.name}`);
  const lines = job.kind === 'tests' ? failedTests(output, CAUSE_LINES) : [];
  const shown = lines.length > 0 ? lines : output.trimEnd().split('\n').slice(-CAUSE_LINES);
  for (const line of [...shown, ...left.map((name) => `left behind: ${name}`)]) console.log(`  ${line}`);
}

/** A step that others need and that had nothing to do, or a file without a test of the name that is looked for. */
function isSilent({ job, output }) {
  if (job.kind === 'build') return output === '';
  const { passed, failed, skipped } = parseTally(output) ?? { passed: 1, failed: 0, skipped: 0 };
  return options.name !== undefined && passed + failed + skipped === 0;
}

function printTimes(outcomes) {
  const wallSeconds = performance.now() / 1000;
  const sorted = [...outcomes].sort((a, b) => b.wallSeconds - a.wallSeconds).slice(0, 15);
  const lines = sorted.map(
    (outcome) =>
      `${outcome.wallSeconds.toFixed(0).padStart(6)} s ${outcome.cpuSeconds.toFixed(0).padStart(6)} s  ${outcome.job.name}`,
  );
  console.log(`\n==> the longest: wall clock, processor\n${lines.join('\n')}`);
  console.log(`${wallSeconds.toFixed(0)} s in all, processor ${cpuOf(outcomes).toFixed(0)} s`);
}

/** Of all jobs and of this process, since it was started; in seconds. */
function cpuOf(outcomes) {
  const own = process.cpuUsage();
  return outcomes.reduce((total, { cpuSeconds }) => total + cpuSeconds, (own.user + own.system) / 1e6);
}

/** What the run cost, and would have on the machine that has recorded the times: by a job that is always the same. */
function printCost(outcomes) {
  const reference = outcomes.find(({ job }) => job.name === REFERENCE);
  const ratio = (reference?.cpuSeconds ?? 0) / (reference?.job.cpuSeconds ?? 0);
  if (!(ratio > 0 && ratio < Number.POSITIVE_INFINITY)) return;
  const cpu = cpuOf(outcomes);
  console.log(
    `processor ${cpu.toFixed(0)} s; the reference took ${ratio.toFixed(2)} times its record: ${(cpu / ratio).toFixed(0)} s`,
  );
}

/** What the tests have counted, each count in a line of its own (docs/proof.md): the numbers of all jobs are added up. */
function printCounts(outcomes) {
  const output = outcomes.map((outcome) => outcome.output).join('\n');
  const sumsOf = (line) => {
    const found = [...output.matchAll(line)];
    const total = (place) => found.reduce((sum, match) => sum + Number(match[place] ?? 0), 0);
    return found.length === 0 ? null : [1, 2, 3, 4].map(total);
  };
  const print = (line, say) => {
    const sums = sumsOf(line);
    if (sums !== null) console.log(`\n${say(...sums)}`);
  };
  // test/faults, test/guest/thin-crash
  print(/^ *# (\d+) of (\d+) steps of (\d+) operations were killed(?:, (\d+) failed)?$/gm, (killed, steps, operations, failed) =>
    `${killed} of ${steps} steps of ${operations} operations were killed, ${failed} failed`,
  );
  print(/^ *# (\d+) operations, (\d+) steps held, /gm, (operations, held) => `${held} steps of ${operations} operations were held`);
  print(/^ *# (?:.* )?(\d+) (?:histories|orders)\b/gm, (all) => `${all} histories and orders were enumerated`);
  print(/^ *# (?:.* )?(\d+) lists, (\d+) sectors compared/gm, (lists, sectors) =>
    `${lists} lists were compared with ${sectors} sectors`,
  );
  // test/conformance/soak, test/guest/conformance
  print(/^ *# soak\.\w+: increments: (\d+) /gm, (increments) => {
    const [bytes = 0] = sumsOf(/^ *# soak\.\w+: bytes compared: (\d+) /gm) ?? [];
    const [missed = 0] = sumsOf(/^ *# soak\.\w+: bytes missed: (\d+) /gm) ?? [];
    return `${increments} increments under load: ${(bytes / 2 ** 30).toFixed(1)} GiB compared, ${missed} bytes missed`;
  });
}

/** Wall clock and processor of each job that passed. Forgets test files that are gone. */
function record(outcomes) {
  const times = JSON.parse(readFileSync(TIMES, 'utf8'));
  const tenths = (seconds) => Math.round(seconds * 10) / 10;
  for (const { job, status, wallSeconds, cpuSeconds } of outcomes) {
    if (status === 0) times[keyOf(job.name, options.nightly)] = [tenths(wallSeconds), tenths(cpuSeconds)];
  }
  const isGone = (key) => key.split(' ').some((file) => /^[a-z]+\//.test(file) && !existsSync(`test/${file}.test.ts`));
  const lines = Object.entries(times)
    .filter(([key]) => !isGone(key))
    .sort(([, [a]], [, [b]]) => b - a)
    .map(([key, [wall, cpu]]) => `  ${JSON.stringify(key)}: [${wall}, ${cpu}]`);
  writeFileSync(TIMES, `{\n${lines.join(',\n')}\n}\n`);
}
