/** Work on a pool that must not overlap, one after the other in the order it is asked for. */
export class PoolQueue {
  #idle: Promise<unknown> = Promise.resolve();

  /** Never called by work that is in the queue itself. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#idle.then(work);
    this.#idle = done.catch(() => undefined);
    return done;
  }
}
