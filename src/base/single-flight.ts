/** A question to storage that may be dead: asked once at a time, and not waited for without end. */
import type { CsiError } from '../base/errors.js';
import { withTimeout } from '../base/timeout.js';

export class SingleFlight<T> {
  #asking: Promise<T> | null = null;

  /**
   * @param ask one that never ends holds a thread, so it is not asked again until it has ended
   * @param late what to say when the answer takes longer than timeoutMs
   */
  constructor(
    private readonly ask: () => Promise<T>,
    private readonly timeoutMs: number,
    private readonly late: () => CsiError,
  ) {}

  answer(): Promise<T> {
    this.#asking ??= this.ask().finally(() => {
      this.#asking = null;
    });
    return withTimeout(this.#asking, this.timeoutMs, (): never => {
      throw this.late();
    });
  }
}
