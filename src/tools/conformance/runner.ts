/** Runs checks one after the other, each with a timeout, and deletes what each check has created. Knows no check. */

import { messageOf } from '../../base/errors.js';
import { withTimeout } from '../../base/timeout.js';
import { Random } from '../random.js';
import { Advertised } from './advertised.js';
import type { Check, CheckContext, Figure } from './check.js';
import { CheckSkipped, ConformanceFailure } from './failure.js';
import { Driver } from './judged-driver.js';
import type { SuiteOptions } from './options.js';
import type { CheckResult, Report } from './report.js';
import { SharedFailure, SharedVolumes } from './shared-volumes.js';
import { Volumes } from './volumes.js';

export interface RunOptions {
  /** Aborted when the user interrupts the run: the running check ends and its objects are deleted. */
  readonly signal?: AbortSignal;
  /** Called before each check and with each result. */
  readonly onStart?: (check: Check) => void;
  readonly onResult?: (result: CheckResult) => void;
  /** How long all deletions together, including those under way, may take after an interrupt. */
  readonly interruptedCleanUpMs?: number;
}

/** How long a check that has timed out may take to stop. */
const GRACE_MS = 5_000;
/** How long all deletions after a check may take together. */
const CLEAN_UP_MS = 60_000;
const CLEAN_UP_INTERRUPTED_MS = 20_000;
/** The row of the report for a driver that has died. */
const PRESENCE: Omit<Check, 'run'> = {
  id: 'suite.driver-present',
  section: 'Deployment',
  rule: 'ID9',
  title: 'the driver serves its socket for as long as the run lasts',
  level: 'must',
  needs: [],
};
/** The row of the report for shared volumes that could not be cleaned up. */
const CLEAN_UP: Omit<Check, 'run'> = {
  id: 'suite.clean-up',
  section: 'Controller: DeleteVolume',
  rule: 'DV2',
  title: 'the volumes that checks share can be unpublished and deleted',
  level: 'must',
  needs: [],
};

export async function runSuite(
  checks: readonly Check[],
  options: SuiteOptions,
  runOptions: RunOptions = {},
): Promise<Report> {
  const run = new SuiteRun(options, runOptions);
  try {
    return await run.run(checks.filter(({ id }) => isSelected(id, options)));
  } finally {
    run.close();
  }
}

/** Whether `only` selects a check. Checks that `skip` matches are reported as skipped. */
export function isSelected(id: string, { only }: Pick<SuiteOptions, 'only'>): boolean {
  return only.length === 0 || only.some((pattern) => matches(id, pattern));
}

export function matches(id: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replace(/[.\\+?^${}()|[\]]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(id);
}

type Outcome = Pick<CheckResult, 'result' | 'detail'>;

class SuiteRun {
  readonly #signal: AbortSignal;
  readonly #driver: Driver;
  readonly #results: CheckResult[] = [];
  /** The first check that met each failure. */
  readonly #sharedFailures = new Map<SharedFailure, string>();
  readonly #runName: string;
  /** Ends the deletions some time after an interrupt. */
  readonly #cleanUpEnd = new AbortController();
  #cleanUpTimer: NodeJS.Timeout | undefined;

  constructor(
    private readonly options: SuiteOptions,
    private readonly runOptions: RunOptions,
  ) {
    this.#signal = runOptions.signal ?? new AbortController().signal;
    this.#driver = new Driver(options, this.#signal);
    this.#signal.addEventListener('abort', this.#limitCleanUp, { once: true });
    if (this.#signal.aborted) this.#limitCleanUp();
    this.#runName = `conformance-${Date.now().toString(36)}-${process.pid}`;
  }

  async run(checks: readonly Check[]): Promise<Report> {
    const startedAt = new Date();
    const started = performance.now();
    const advertised = await this.#readAdvertised();
    const info = await this.#driver.outcome('GetPluginInfo', {});
    if (advertised !== null) await this.#runAll(checks, advertised);
    return {
      driver: {
        name: String(info.response?.['name'] ?? ''),
        vendorVersion: String(info.response?.['vendor_version'] ?? ''),
      },
      seed: this.options.seed,
      startedAt,
      seconds: secondsSince(started),
      results: this.#results,
    };
  }

  /** Null if the run is interrupted meanwhile. */
  async #readAdvertised(): Promise<Advertised | null> {
    try {
      return await Advertised.read(this.#driver);
    } catch (thrown) {
      if (this.#signal.aborted) return null;
      throw thrown;
    }
  }

  async #runAll(checks: readonly Check[], advertised: Advertised): Promise<void> {
    const shared = new SharedVolumes(this.#volumes(advertised, 'shared'), this.options);
    for (const check of checks) {
      if (this.#signal.aborted) break;
      const wasGone = this.#driver.presence.cause !== null;
      await this.#runOne(check, advertised, shared);
      const { cause } = this.#driver.presence;
      if (cause !== null && !wasGone) this.#reportGone(cause, check);
    }
    await this.#cleanUpShared(shared);
  }

  readonly #limitCleanUp = (): void => {
    const ms = this.runOptions.interruptedCleanUpMs ?? CLEAN_UP_INTERRUPTED_MS;
    this.#cleanUpTimer = setTimeout(() => this.#cleanUpEnd.abort(), ms);
  };

  close(): void {
    this.#signal.removeEventListener('abort', this.#limitCleanUp);
    clearTimeout(this.#cleanUpTimer);
    this.#driver.close();
  }

  async #runOne(check: Check, advertised: Advertised, shared: SharedVolumes): Promise<void> {
    const { options } = this;
    const reason = this.#reasonAgainst(check, advertised);
    if (reason !== null) {
      return this.#report(check, { result: 'skipped', detail: reason }, [], [], 0);
    }
    this.runOptions.onStart?.(check);
    const started = performance.now();
    const ending = new AbortController();
    const { presence } = this.#driver;
    const signal = AbortSignal.any([this.#signal, ending.signal, presence.signal]);
    const volumes = this.#volumes(advertised, check.id, this.#driver.under(signal));
    const figures: Figure[] = [];
    const notes: string[] = [];
    const context: CheckContext = {
      options,
      advertised,
      shared,
      volumes,
      signal,
      driver: this.#driver.under(signal),
      random: new Random(options.seed, check.id),
      figure: (name, value, unit) => figures.push({ name, value, unit }),
      note: (text) => {
        if (!notes.includes(text)) notes.push(text);
      },
    };
    const outcome = await this.#judge(check, context, ending);
    const problems = await this.#cleanUp(volumes);
    const final = withProblems(this.#unlessCutOff(outcome), problems);
    this.#report(check, final, figures, notes, secondsSince(started));
  }

  /** Skips a check whose calls were cut off, because its failure says nothing about the driver. */
  #unlessCutOff(outcome: Outcome): Outcome {
    if (outcome.result !== 'failed') return outcome;
    const { cause } = this.#driver.presence;
    if (cause !== null) return { result: 'skipped', detail: `cut off: ${cause}` };
    if (!this.#signal.aborted) return outcome;
    return { result: 'skipped', detail: 'the run was interrupted' };
  }

  /** Returns why the check cannot run; null if it can. */
  #reasonAgainst({ id, needs }: Check, advertised: Advertised): string | null {
    const { options } = this;
    const pattern = options.skip.find((skip) => matches(id, skip));
    if (pattern !== undefined) return `excluded by --skip ${pattern}`;
    if (this.#driver.presence.cause !== null) return `not reached: see ${PRESENCE.id}`;
    return advertised.reasonAgainst(needs, options.access);
  }

  #reportGone(cause: string, { id }: Check): void {
    const detail =
      `${cause}: the driver has ended during ${id}. Its objects of this run, whose names begin with ` +
      `${this.#runName}, are left; see the driver's log`;
    this.#report(PRESENCE, { result: 'failed', detail }, [], [], 0);
  }

  /** Returns the result. At the timeout, or when the run is cut off, the check has a grace period to stop. */
  async #judge(check: Check, context: CheckContext, ending: AbortController): Promise<Outcome> {
    const timeoutMs = this.options.timeoutMs * (check.timeouts ?? 1);
    const verdict = check.run(context).then(
      (): Outcome => ({ result: 'passed', detail: null }),
      (thrown: unknown): Outcome => this.#outcomeOf(thrown, check),
    );
    const first = await withTimeout(verdict, timeoutMs, () => null, context.signal);
    if (first !== null) return first;
    ending.abort();
    await withTimeout(verdict, GRACE_MS, () => null);
    return { result: 'failed', detail: `did not end within ${timeoutMs / 1000} s` };
  }

  /** Resolves to the failures; none if the driver is gone, because its absence is reported once for all objects. */
  async #cleanUp(objects: Volumes | SharedVolumes): Promise<readonly string[]> {
    const limit = new AbortController();
    const limiting = setTimeout(() => limit.abort(), CLEAN_UP_MS);
    // The signal of the run is left out, because an interrupt only limits the time for deletions.
    const driver = this.#driver.under(AbortSignal.any([limit.signal, this.#cleanUpEnd.signal]));
    try {
      const problems = await objects.cleanUp(driver);
      return this.#driver.presence.cause === null ? problems : [];
    } finally {
      clearTimeout(limiting);
    }
  }

  /** A cause that many checks meet fails only the first of these checks. */
  #outcomeOf(thrown: unknown, { id }: Check): Outcome {
    if (!(thrown instanceof SharedFailure)) return outcomeOf(thrown);
    const first = this.#sharedFailures.get(thrown);
    if (first !== undefined) return { result: 'skipped', detail: `not reached: see ${first}` };
    this.#sharedFailures.set(thrown, id);
    return { result: 'failed', detail: thrown.message };
  }

  async #cleanUpShared(shared: SharedVolumes): Promise<void> {
    const started = performance.now();
    const problems = await this.#cleanUp(shared);
    if (problems.length === 0) return;
    const outcome = withProblems({ result: 'passed', detail: null }, problems);
    this.#report(CLEAN_UP, outcome, [], [], secondsSince(started));
  }

  #volumes(advertised: Advertised, label: string, driver = this.#driver): Volumes {
    return new Volumes({ driver, advertised, options: this.options, runName: this.#runName }, label);
  }

  #report(
    check: Omit<Check, 'run'>,
    outcome: Outcome,
    figures: readonly Figure[],
    notes: readonly string[],
    seconds: number,
  ): void {
    const { id, section, rule, title, level } = check;
    const result = { id, section, rule, title, level, ...outcome, notes, figures, seconds };
    this.#results.push(result);
    this.runOptions.onResult?.(result);
  }
}

function outcomeOf(thrown: unknown): Outcome {
  if (thrown instanceof CheckSkipped) return { result: 'skipped', detail: thrown.message };
  if (thrown instanceof ConformanceFailure) return { result: 'failed', detail: thrown.message };
  const text = messageOf(thrown);
  return { result: 'failed', detail: `the check failed unexpectedly: ${text}` };
}

function withProblems(outcome: Outcome, problems: readonly string[]): Outcome {
  if (problems.length === 0) return outcome;
  const left = `could not be cleaned up: ${problems.join('; ')}`;
  const detail = outcome.result === 'failed' ? `${outcome.detail}; ${left}` : left;
  return { result: 'failed', detail };
}

function secondsSince(started: number): number {
  return (performance.now() - started) / 1000;
}
