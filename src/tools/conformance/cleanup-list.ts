/** Runs the calls that delete what a check has created: single calls on request, the rest at the end, newest first. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';
import type { Driver } from './judged-driver.js';
import type { Message } from './objects.js';
import { describeRefusal, type Refusal } from './refusal.js';

export interface Cleanup {
  /** Identifies the object; a second cleanup with the same key is ignored. */
  readonly key: string;
  readonly rpc: string;
  readonly request: Message;
  /**
   * Set for a create call whose outcome is unknown. The cleanup repeats the call, as the caller would, and this
   * function returns the deletion of the object in the response.
   */
  readonly cleanupOf?: (response: Message) => Pick<Cleanup, 'rpc' | 'request'>;
}

/** How long a cleanup is retried while the driver answers that the object is in use. */
const TIMEOUT_MS = 15_000;
const PAUSE_MS = 200;
/** Statuses of a repeated create call that do not tell whether the first call has created anything. */
const UNKNOWN: readonly number[] = [StatusCode.ABORTED, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED];
const IN_USE: readonly number[] = [StatusCode.ABORTED, StatusCode.FAILED_PRECONDITION];

export class CleanupList {
  readonly #entries: Cleanup[] = [];

  /** Call this before the call that creates the object, if the creation can fail half way. */
  push(cleanup: Cleanup): void {
    if (!this.#entries.some(({ key }) => key === cleanup.key)) this.#entries.push(cleanup);
  }

  /** Runs one cleanup now; does nothing if there is no such entry. */
  async run(key: string, driver: Driver): Promise<void> {
    const cleanup = this.#entries.find((entry) => entry.key === key);
    if (cleanup === undefined) return;
    await driver.call(cleanup.rpc, cleanup.request);
    this.forget(key);
  }

  /** Drops the cleanup of an object that was deleted by other means. */
  forget(key: string): void {
    const index = this.#entries.findIndex((entry) => entry.key === key);
    if (index >= 0) this.#entries.splice(index, 1);
  }

  /** Runs all remaining cleanups. Resolves to the failures. */
  async runAll(driver: Driver): Promise<string[]> {
    const problems: string[] = [];
    for (let next = this.#entries.pop(); next !== undefined; next = this.#entries.pop()) {
      const problem = await runWithTimeout(driver, next);
      if (problem !== null) problems.push(problem);
    }
    return problems;
  }
}

/** Returns null if nothing was created, or the caller has no way to find out. */
function problemOf({ key }: Cleanup, refusal: Refusal): string | null {
  if (!UNKNOWN.includes(refusal.code)) return null;
  return `${key} may have created something: the repeated call ended with ${describeRefusal(refusal)}`;
}

async function runWithTimeout(driver: Driver, cleanup: Cleanup): Promise<string | null> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const { response, refusal } = await driver.outcome(cleanup.rpc, cleanup.request);
    if (cleanup.cleanupOf !== undefined) {
      if (refusal !== null) return problemOf(cleanup, refusal);
      return runWithTimeout(driver, { key: cleanup.key, ...cleanup.cleanupOf(response) });
    }
    if (refusal === null) return null;
    if (!IN_USE.includes(refusal.code) || Date.now() > deadline) {
      return `${cleanup.rpc} (${cleanup.key}): ${describeRefusal(refusal)}`;
    }
    await delay(PAUSE_MS);
  }
}
