/** The jobs of a test run: what is built, which checks and test files run, and what each needs. */
import { readFileSync } from 'node:fs';
import { doesMoreNightly, filesOf, isSelected, isWeekly, TIERS } from './tiers.mjs';

const ENDS_FIRST = 10_000;
/** Of a job that no run has recorded. */
const UNKNOWN_SECONDS = 3;
/** Their plugins take process 1 for a caller: it has to be in the mount namespace of the test. */
const WITH_PROCESS_1 = ['integration/node/mount-propagation'];
const AS_PROCESS_1 = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
/** Always the same work, of the kind that tests are: processes that load a program and end. */
export const REFERENCE = 'reference';
const REFERENCE_COMMAND = ['bash', '-c', 'for n in {1..40}; do "$0" -e 0; done', process.execPath];
const REPORTER = './scripts/suite/reporter.mjs';
/** Plain runs that a nightly run of a job takes as long as, roughly. */
const NIGHTLY_FACTOR = 10;

/** Seconds on the wall clock and of processor that jobs took (--record), by their keys (keyOf). */
const times = JSON.parse(readFileSync(new URL('./times.json', import.meta.url), 'utf8'));

/**
 * @param {object} options
 * @param {string[]} options.tiers
 * @param {RegExp[]} options.patterns   of test files
 * @param {string} [options.name]       of tests
 * @param {boolean} options.nightly     does more than a plain run
 * @param {boolean} options.weekly      is that part of it
 * @param {boolean} options.isWhole     without a selection of tiers, files or tests
 * @returns {{ jobs: import('./queue.mjs').Job[], files: string[] }} and the test files among them
 */
export function planJobs(options) {
  const jobs = [];
  const add = (job) => {
    const [seconds = UNKNOWN_SECONDS, cpuSeconds] = recordedOf(job.name, options.nightly);
    jobs.push({ ...job, seconds: job.kind === 'build' ? ENDS_FIRST : seconds, cpuSeconds });
    return jobs.at(-1);
  };
  const isWhole = options.patterns.length === 0 && options.name === undefined;
  // A whole nightly run is the rest of a plain one, and a weekly one the rest of both.
  const isWanted = (file) =>
    isWhole && options.nightly
      ? doesMoreNightly(file) && isWeekly(file) === options.weekly
      : isSelected(file, options.patterns);
  const files = Object.fromEntries(
    TIERS.map((tier) => [
      tier,
      options.tiers.includes(tier) ? filesOf(tier).filter((file) => isWanted(file)) : [],
    ]),
  );
  // Unit and memory tests need neither root nor more packages than node-gyp.
  const isSmall = options.tiers.every((tier) => tier === 'unit' || tier === 'memory');
  const packages = isSmall ? [] : [add({ ...build('packages', ['scripts/setup', '--packages']), givesUp: true })];
  const modules = add({ ...build('modules', ['scripts/setup', '--modules']), needs: packages, givesUp: true });
  const native = add({ ...build('addon', ['scripts/setup', '--addon']), needs: [modules] });
  const compiledTests = add({
    ...build('compiled sources and tests', ['node', 'scripts/compile.mjs', 'test']),
    needs: [modules],
  });
  if (isWhole && !options.nightly && options.tiers.includes('checks')) {
    const npx = (...words) => ['npx', ...words];
    add({
      ...check('formatting, lint and import walls', npx('biome', 'ci', '--error-on-warnings', '.')),
      needs: [modules],
    });
    add({
      ...check('lint for promises that nobody waits for', npx('oxlint', '--quiet', 'src', 'test')),
      needs: [modules],
    });
    add({ ...check('formatting of native code', ['scripts/format-native']), needs: packages });
    add(check('no stray words', ['node', 'scripts/check-sources.mjs']));
    add({ ...check('types', ['npm', 'run', '--silent', 'types']), needs: [modules] });
    add({ ...check('dist', ['node', 'scripts/compile.mjs', 'program']), needs: [modules] });
  }
  if (options.isWhole) add(build(REFERENCE, REFERENCE_COMMAND));
  if (isWhole && !options.weekly && options.tiers.includes('native')) {
    const fuzz = options.nightly ? ['--seconds', '120'] : ['--fixed'];
    // Two makes at once would write the same objects: one builds them for both.
    const sanitized = add({ ...build('native tests and fuzz targets', ['scripts/fuzz', '--build-all']), needs: packages });
    const needs = [sanitized];
    add(tests('native tests', ['scripts/test-native'], { needs }));
    if (options.nightly) {
      const built = { needs: [native, compiledTests, sanitized], givesUp: true };
      add(tests('mutations', ['node', 'scripts/test-mutations.mjs'], built));
      add(check('coverage', ['scripts/coverage'], built));
      add({ ...check('lint of native code', ['scripts/tidy-native']), needs: [...packages, modules] });
      // More rounds of one thread find no races.
      const thread = { env: { BLOCKDELTA_TEST_NIGHTLY: '0' }, needs };
      add(tests('native tests under the thread sanitizer', ['scripts/test-native', '--thread'], thread));
    }
    add(tests('fuzzing', ['scripts/fuzz', 'all', ...fuzz], { needs }));
  }
  const named = options.name === undefined ? [] : [`--test-name-pattern=${options.name}`];
  for (const file of [...files.unit, ...files.memory, ...files.node, ...files.nightly]) {
    const command = testCommand(file, named);
    add(tests(`test/${file}.test.ts`, command, { needs: [native, compiledTests] }));
  }
  if (files.guest.length > 0) {
    const guest = add({ ...build('guest', ['scripts/test-guest', '--prepare']), needs: packages, givesUp: true });
    const command = ['scripts/test-guest', '--file', ...files.guest.map(compiled), ...named];
    const name = files.guest.length === 1 ? `test/${files.guest[0]}.test.ts` : 'guest tests';
    add(tests(name, command, { needs: [native, compiledTests, guest], givesUp: true }));
  }
  return { jobs, files: Object.values(files).flat() };
}

/** Runs a test file, named by its path below test/ without the ending; `options` of Node.js name single tests. */
export function testCommand(file, options = []) {
  const around = WITH_PROCESS_1.includes(file) && process.getuid() === 0 ? AS_PROCESS_1 : [];
  return [...around, process.execPath, `--test-reporter=${REPORTER}`, ...options, compiled(file)];
}

/** Seconds on the wall clock and of processor; empty for a job that no run has recorded. */
function recordedOf(name, nightly) {
  const plain = times[keyOf(name, false)] ?? [];
  return nightly ? times[keyOf(name, true)] ?? plain.map((seconds) => seconds * NIGHTLY_FACTOR) : plain;
}

function compiled(file) {
  return `.test-build/test/${file}.test.js`;
}

/** A step that others need: no result of its own unless it fails. */
function build(name, command) {
  return { kind: 'build', name, command };
}

/** Passes or fails as a whole. */
function check(name, command, options) {
  return { kind: 'check', name, command, ...options };
}

/** Ends with "N passed, N failed, N skipped". */
function tests(name, command, options) {
  return { kind: 'tests', name, command, ...options };
}

/**
 * A job's name in times.json: the path of its test file, or what it does. What also belongs to a plain run
 * takes longer in a nightly one, and has a name for each.
 */
export function keyOf(name, nightly) {
  const key = name.replace(/^test\/(.*)\.test\.ts$/, '$1');
  return nightly && key !== REFERENCE && !key.startsWith('nightly/') ? `nightly: ${key}` : key;
}
