/**
 * Keeps a successful answer for a short while, so that a question that costs a millisecond, such as whether the node
 * works, is not asked again for each of many callers at once. A failure is never kept, so a repair shows at once.
 */
import { SingleFlight } from '../../base/single-flight.js';

export class Recent<T> {
  readonly #maxAgeMs: number;
  readonly #ask: () => Promise<T>;
  readonly #flight = new SingleFlight<'the question', T>();
  #last: { value: T; askedAt: number } | null = null;

  /** @param maxAgeMs how old an answer may be, counted from when it was asked for */
  constructor(maxAgeMs: number, ask: () => Promise<T>) {
    this.#maxAgeMs = maxAgeMs;
    this.#ask = ask;
  }

  /** Resolves to a successful answer that was asked for at most maxAgeMs ago, or to a new one. */
  async get(): Promise<T> {
    const last = this.#last;
    if (last !== null && performance.now() - last.askedAt <= this.#maxAgeMs) return last.value;
    return this.#flight.run('the question', async () => {
      this.#last = null;
      const askedAt = performance.now();
      const value = await this.#ask();
      this.#last = { value, askedAt };
      return value;
    });
  }
}
