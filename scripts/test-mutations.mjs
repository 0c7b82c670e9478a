/**
 * Proves that the plain tests can fail: applies each mutation of test/mutations to a copy of the tree and
 * demands that the test that it names fails. Ends with "N passed, N failed, 0 skipped".
 *
 *   node scripts/test-mutations.mjs              all of them
 *   node scripts/test-mutations.mjs PATTERN...   those whose condition, file or test matches a regular expression
 *
 * The tests run unchanged first, and must pass. A mutation fails if its old text does not occur exactly once, if
 * the result does not compile, and if the named test passes, is missing or does not end. Mutations of TypeScript
 * and those of C++, which native tests notice, run beside each other, each kind in a copy of its own with builds
 * that are incremental.
 */
import { spawn } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { removeUnder } from './left-behind.mjs';
import { watchForHang } from './suite/hang.mjs';
import { testCommand } from './suite/jobs.mjs';
import { isolated } from './suite/mounts.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const COMPILE = ['node', 'scripts/compile.mjs', 'test'];

/** How the tests of a kind of mutations are built and run, and what their output says of one. */
const KINDS = {
  typescript: {
    build: COMPILE,
    outputs: ['.test-build', 'build'],
    isOf: ({ file }) => file.startsWith('src/'),
    runOf: ({ file }) => file,
    command: ([{ file }], names) => {
      const options = names.map((name) => `--test-name-pattern=${escaped(name)}`);
      return isolated(testCommand(file.replace(/^test\/(.*)\.test\.ts$/, '$1'), options));
    },
    hasPassed: (name, output) => new RegExp(`^ *✔ ${escaped(name)} \\(`, 'm').test(output),
    hasFailed: (name, output) => new RegExp(`^ *✖ ${escaped(name)} \\(`, 'm').test(output),
  },
  native: {
    build: ['make', '-s', '-j2', '-f', 'scripts/native.mk', 'tests'],
    outputs: ['.native-build/clang++', '.native-build/g++'],
    isOf: ({ file }) => file.startsWith('native/'),
    runOf: () => 'native tests',
    command: (_tests, names) => ['scripts/test-native', names.map((name) => `*${name}*`).join(':')],
    hasPassed: (name, output) => nativeResult('       OK', name).test(output),
    // A sanitizer ends the program in the middle of the test.
    hasFailed: (name, output) =>
      nativeResult('  FAILED ', name).test(output) ||
      (/^FAILED: the test program ended/m.test(output) &&
        [...output.matchAll(/^\[ RUN {6}\] (\S+)/gm)].at(-1)?.[1]?.includes(name) === true),
  },
};

/** Beside outputs of builds: what tests and builds do not read, or only read. */
const NOT_COPIED = ['.git', 'node_modules', '.native-build', '.test-build', 'build', 'dist', 'prebuilds'];
const DRAIN_MS = 2000;
/** Of an output that is shown. */
const SHOWN_LINES = 30;

const running = new Set();
const directory = mkdtempSync(join(tmpdir(), 'm-'));
chmodSync(directory, 0o755);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    for (const child of running) killGroup(child);
    removeUnder(directory);
    process.exit(130);
  });
}

const sum = { passed: 0, failed: 0 };
try {
  await main(process.argv.slice(2).map((pattern) => new RegExp(pattern)));
} catch (thrown) {
  sum.failed += 1;
  console.log(`FAILED: ${thrown.message}`);
} finally {
  removeUnder(directory);
}
console.log(`\n${sum.passed} passed, ${sum.failed} failed, 0 skipped`);
process.exit(sum.failed === 0 && sum.passed > 0 ? 0 : 1);

async function main(patterns) {
  const trees = Object.fromEntries(Object.keys(KINDS).map((name) => [name, join(directory, name.slice(0, 1))]));
  // Not here: other tests of the suite use what is built here.
  await prepare(KINDS.typescript, trees.typescript);
  const list = join(trees.typescript, '.test-build/test/mutations/mutations.js');
  const { MUTATIONS } = await import(pathToFileURL(list).href);
  const wanted = MUTATIONS.filter(
    ({ breaks, file, test }) =>
      patterns.length === 0 ||
      patterns.some((pattern) => pattern.test(`${breaks} ${file} ${test.file} ${test.name}`)),
  );
  const native = wanted.filter(KINDS.native.isOf);
  if (native.length > 0) await prepare(KINDS.native, trees.native);
  await Promise.all(
    Object.entries(KINDS).map(([name, kind]) => runAll(kind, wanted.filter(kind.isOf), trees[name])),
  );
}

async function prepare(kind, tree) {
  copyTree(tree, kind.outputs);
  const { status, output } = await run(kind.build, tree);
  if (status !== 0) throw new Error(`the tests cannot be built\n${tail(output)}`);
}

/** One after the other: first the tests as they are, then each mutation. */
async function runAll(kind, mutations, tree) {
  const unfit = await unfitTests(kind, mutations, tree);
  // A file at a time, so that an object is compiled no more often than necessary.
  for (const mutation of [...mutations].sort((a, b) => (a.file < b.file ? -1 : 1))) {
    const begun = performance.now();
    const failure = unfit.get(labelOf(mutation.test)) ?? (await failureOf(kind, mutation, tree));
    const took = ((performance.now() - begun) / 1000).toFixed(1);
    sum[failure === null ? 'passed' : 'failed'] += 1;
    const label = `${mutation.breaks} ${mutation.file}`;
    console.log(`${failure === null ? '✔' : '✖'} ${label}: ${mutation.reason} (${took} s)`);
    if (failure !== null) console.log(`FAILED: ${label}: ${failure}`);
  }
}

/** Modules are shared; outputs of builds are copied with their times, so that hardly anything is built again. */
function copyTree(tree, outputs) {
  const copied = readdirSync(ROOT).filter((entry) => !NOT_COPIED.includes(entry));
  mkdirSync(tree);
  for (const entry of [...copied, ...outputs].filter((each) => existsSync(join(ROOT, each)))) {
    cpSync(join(ROOT, entry), join(tree, entry), {
      ...{ recursive: true, preserveTimestamps: true, verbatimSymlinks: true },
    });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
}

/** The tests that do not pass without a mutation, by their labels, each with what is to be said of it. */
async function unfitTests(kind, mutations, tree) {
  const runs = new Map();
  for (const { test } of mutations) {
    runs.set(kind.runOf(test), [...(runs.get(kind.runOf(test)) ?? []), test]);
  }
  const unfit = new Map();
  for (const tests of runs.values()) {
    const { output } = await runTests(kind, tests, tree);
    for (const test of tests) {
      if (kind.hasPassed(test.name, output) && !kind.hasFailed(test.name, output)) continue;
      unfit.set(labelOf(test), `${labelOf(test)} does not pass without the mutation\n${tail(output)}`);
    }
  }
  return unfit;
}

/** Null: the test has failed, as it should. */
async function failureOf(kind, { file, from, to, test }, tree) {
  const path = join(tree, file);
  const text = readFileSync(path, 'utf8');
  const parts = text.split(from);
  if (parts.length !== 2) return `the old text occurs ${parts.length - 1} times, not once`;
  writeFileSync(path, parts.join(to));
  try {
    const built = await run(kind.build, tree);
    if (built.status !== 0) return `it does not compile\n${tail(built.output)}`;
    const { output, hang } = await runTests(kind, [test], tree);
    if (kind.hasFailed(test.name, output)) return null;
    return `${labelOf(test)} ${hang ?? 'does not fail'}\n${tail(output)}`;
  } finally {
    writeFileSync(path, text);
  }
}

async function runTests(kind, tests, tree) {
  const files = mkdtempSync(join(directory, 'r'));
  chmodSync(files, 0o755);
  try {
    const names = [...new Set(tests.map(({ name }) => name))];
    return await run(kind.command(tests, names), tree, files);
  } finally {
    removeUnder(files);
  }
}

/** The line of a native test; a parameterized one has words before and behind its name. */
function nativeResult(result, name) {
  return new RegExp(`^\\[${result} \\] (\\S+/)?${escaped(name)}(/\\S+)?.* \\(\\d`, 'm');
}

function labelOf({ file, name }) {
  return `${file}: '${name}'`;
}

function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

function tail(output) {
  return output.trimEnd().split('\n').slice(-SHOWN_LINES).map((line) => `  ${line}`).join('\n');
}

function run(command, cwd, files = directory) {
  return new Promise((resolve) => {
    const child = spawn(command[0], command.slice(1), {
      ...{ cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
      // The plain tests: without new seeds and more rounds.
      env: { ...process.env, BLOCKDELTA_TEST_NIGHTLY: '0', TMPDIR: files },
    });
    running.add(child);
    const output = [];
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => output.push(chunk));
    let hang;
    const stopWatching = watchForHang({ leader: child.pid, directory: files }, {}, (reason) => {
      hang = `hangs; ${reason}`;
      killGroup(child);
    });
    const closed = new Promise((close) => child.once('close', close));
    child.once('exit', async (status) => {
      stopWatching();
      running.delete(child);
      // What a failed test has left behind may hold the pipes.
      await Promise.race([closed, delay(DRAIN_MS)]);
      resolve({ status, hang, output: Buffer.concat(output).toString() });
    });
  });
}

function killGroup(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}
