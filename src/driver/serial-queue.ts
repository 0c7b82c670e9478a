/** Runs asynchronous work one piece at a time, in the order it was queued. Knows nothing of the work. */
import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * The pieces of work, of all queues, on whose behalf the current code runs. All queues share one storage, because Node.js
 * keeps a storage for ever once it is used, and lets each storage follow every promise.
 */
const context = new AsyncLocalStorage<readonly Piece[]>();

interface Piece {
  isRunning: boolean;
}

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();
  #running: Piece | null = null;

  /** @param name what the queue protects, for errors */
  constructor(private readonly name: string) {}

  /**
   * Resolves or rejects as the work does; a failure does not stop the work behind it. Rejects at once
   * when called from work that is running in this queue, which would otherwise wait for its own end.
   */
  run<T>(work: () => Promise<T>): Promise<T> {
    const pieces = context.getStore() ?? [];
    if (this.#running !== null && pieces.includes(this.#running)) {
      return Promise.reject(new Error(`work in the queue of ${this.name} waits for that queue`));
    }
    const result = this.#last.then(() => {
      this.#running = { isRunning: true };
      // Pieces that have ended are left out: code that goes on from piece to piece would collect them.
      const current = pieces.filter(({ isRunning }) => isRunning);
      return context.run([...current, this.#running], work);
    });
    this.#last = result
      .catch(() => undefined)
      .then(() => {
        if (this.#running !== null) this.#running.isRunning = false;
        this.#running = null;
      });
    return result;
  }

  /** Resolves when all work queued so far has ended, whether it succeeded or not. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
