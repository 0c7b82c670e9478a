/** Sums up events of node:test: how many tests passed, failed and were skipped, and why. */

export class Tally {
  passed = 0;
  failed = 0;
  /** Name and reason of each. */
  skips = [];

  /** `containers` are names of tests that only hold tests, besides suites. */
  constructor(containers = []) {
    this.containers = new Set(containers);
  }

  /** Suites and files only hold tests; they count when they fail by themselves (a hook, a crash). */
  isCounted(event, result) {
    const isContainer = event.details.type === 'suite' || this.containers.has(event.name);
    return !isContainer || (result === 'failed' && event.details.error?.failureType !== 'subtestsFailed');
  }

  /** Of 'test:pass' ('passed') and 'test:fail' ('failed'). */
  count(event, result) {
    if (event.skip !== undefined) {
      this.skips.push({ name: event.name, reason: event.skip === true ? 'no reason given' : event.skip });
      return;
    }
    if (this.isCounted(event, result)) this[result] += 1;
  }

  /** The reasons of skips, and the line that scripts/test looks for. */
  toString() {
    const skips = this.skips.map(({ name, reason }) => `skipped: ${name}: ${reason}\n`);
    return `${skips.join('')}${this.passed} passed, ${this.failed} failed, ${this.skips.length} skipped`;
  }
}
