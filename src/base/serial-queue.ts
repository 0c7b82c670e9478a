/** Work on a pool that must not overlap, one after the other in the order it is asked for. */
import { AsyncLocalStorage } from 'node:async_hooks';

export class PoolQueue {
  #idle: Promise<unknown> = Promise.resolve();
  /** Set in whatever work of the queue calls. */
  readonly #inside = new AsyncLocalStorage<true>();

  /** Rejects for work that is in the queue itself: it would wait for its own end, and hold up all others. */
  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#inside.getStore() === true) {
      return Promise.reject(new Error('work in the queue of a pool waits for that queue'));
    }
    const done = this.#idle.then(() => this.#inside.run(true, work));
    this.#idle = done.catch(() => undefined);
    return done;
  }
}
