/** Runs asynchronous work one piece at a time, in the order it was queued. Knows nothing of the work. */

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * Resolves or rejects as the work does; a failure does not stop the work behind it. Work that waits for a later piece of its
   * own queue never ends.
   */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when all work queued so far has ended, whether it succeeded or not. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
