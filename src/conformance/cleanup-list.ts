/** The calls that undo what was made: one at a time when asked, the rest at the end, newest first. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../base/errors.js';
import { type Driver, describeRefusal, type Message } from './driver.js';

export interface Undo {
  /** Names what was made; a second one of the same name is the same thing. */
  readonly key: string;
  readonly rpc: string;
  readonly request: Message;
  /**
   * For a call that makes something and whose outcome nobody knows: it is repeated, as its caller
   * would, and this tells from the answer how to undo it.
   */
  readonly undoOf?: (response: Message) => Pick<Undo, 'rpc' | 'request'>;
}

/** How long it is tried again while the driver says that something is in use. */
const TIMEOUT_MS = 15_000;
const PAUSE_MS = 200;
const WAITED_FOR: readonly number[] = [StatusCode.ABORTED, StatusCode.FAILED_PRECONDITION];

export class CleanupList {
  readonly #entries: Undo[] = [];

  /** To be called before the call that makes it, if that can fail half way. */
  push(undo: Undo): void {
    if (!this.#entries.some(({ key }) => key === undo.key)) this.#entries.push(undo);
  }

  /** Undoes one now; nothing if there is no such entry. */
  async run(key: string, driver: Driver): Promise<void> {
    const undo = this.#entries.find((entry) => entry.key === key);
    if (undo === undefined) return;
    await driver.call(undo.rpc, undo.request);
    this.forget(key);
  }

  /** It is gone by other means. */
  forget(key: string): void {
    const index = this.#entries.findIndex((entry) => entry.key === key);
    if (index >= 0) this.#entries.splice(index, 1);
  }

  /** Undoes all that is left. Resolves to what could not be undone. */
  async runAll(driver: Driver): Promise<string[]> {
    const problems: string[] = [];
    for (let undo = this.#entries.pop(); undo !== undefined; undo = this.#entries.pop()) {
      const problem = await undoWithTimeout(driver, undo);
      if (problem !== null) problems.push(problem);
    }
    return problems;
  }
}

async function undoWithTimeout(driver: Driver, undo: Undo): Promise<string | null> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const { response, refusal } = await driver.settle(undo.rpc, undo.request);
    if (undo.undoOf !== undefined) {
      // Refused: nothing was made, or the caller cannot learn of it.
      if (refusal !== null) return null;
      return undoWithTimeout(driver, { key: undo.key, ...undo.undoOf(response) });
    }
    if (refusal === null) return null;
    if (!WAITED_FOR.includes(refusal.code) || Date.now() > deadline) {
      return `${undo.rpc} (${undo.key}): ${describeRefusal(refusal)}`;
    }
    await delay(PAUSE_MS);
  }
}
