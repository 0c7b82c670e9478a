/** Sums up events of node:test: how many tests passed, failed and were skipped, and why. */

/** What Node.js 20 gives as the reason for tests that the name filter leaves out. */
const FILTERED_OUT = 'test name does not match pattern';

/** Whether the name filter (--name) has left out the test of that event. */
export function isFilteredOut({ skip }) {
  return skip === FILTERED_OUT;
}

export class Tally {
  passed = 0;
  failed = 0;
  /** Name and reason of each. */
  skips = [];

  /** Suites only hold tests; they count when they fail by themselves (a hook, a crash). */
  isCounted(event, result) {
    const isSuite = event.details.type === 'suite';
    return !isSuite || (result === 'failed' && event.details.error?.failureType !== 'subtestsFailed');
  }

  /** Counts a 'test:pass' ('passed') or 'test:fail' ('failed'). */
  count(event, result) {
    if (isFilteredOut(event)) return;
    if (event.skip !== undefined) {
      this.skips.push({ name: event.name, reason: event.skip === true ? 'no reason given' : event.skip });
      return;
    }
    if (this.isCounted(event, result)) this[result] += 1;
  }

  /** The reasons of skips, and the line that the suite reads. */
  toString() {
    const skips = this.skips.map(({ name, reason }) => `skipped: ${name}: ${reason}\n`);
    return `${skips.join('')}${this.passed} passed, ${this.failed} failed, ${this.skips.length} skipped`;
  }
}

/** The last line of that form in a text as numbers, or undefined. */
export function parseTally(text) {
  const lines = [...text.matchAll(/^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/gm)];
  const last = lines.at(-1);
  if (last === undefined) return undefined;
  return { passed: Number(last[1]), failed: Number(last[2]), skipped: Number(last[3] ?? 0) };
}

/** The failed tests in the output of a test file, each with its cause, cut to so many lines. */
export function failedTests(text, maxLines) {
  const failed = [];
  let lines;
  for (const line of text.split('\n')) {
    if (/^ *✖ /.test(line)) failed.push((lines = []));
    else if (/^ *[✔﹣▶] |^\d+ passed, /.test(line)) lines = undefined;
    if (lines !== undefined && lines.length < maxLines) lines.push(line);
  }
  return failed.flat();
}
