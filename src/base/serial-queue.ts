/** Runs asynchronous work one piece at a time, in the order it was queued. Knows nothing of the work. */
import { AsyncLocalStorage } from 'node:async_hooks';

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();
  /** The piece of work that is running now. */
  #running: object | null = null;
  /** The piece of work on whose behalf the current code runs. */
  readonly #context = new AsyncLocalStorage<object>();

  /** @param name what the queue protects, for errors */
  constructor(private readonly name: string) {}

  /**
   * Resolves or rejects as the work does; a failure does not stop the work behind it. Rejects at once
   * when called from work that is running in this queue, which would otherwise wait for its own end.
   */
  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running !== null && this.#context.getStore() === this.#running) {
      return Promise.reject(new Error(`work in the queue of ${this.name} waits for that queue`));
    }
    const result = this.#last.then(() => {
      const running = {};
      this.#running = running;
      return this.#context.run(running, work);
    });
    this.#last = result
      .catch(() => undefined)
      .then(() => {
        this.#running = null;
      });
    return result;
  }

  /** Resolves when all work queued so far has ended, whether it succeeded or not. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
