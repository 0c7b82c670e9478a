/** Undoes what a suite has made, also when it fails or is interrupted. */

export class Cleanup {
  readonly #undo: Array<() => Promise<void> | void> = [];

  /** Registers a step; the latest registered runs first. */
  defer(undo: () => Promise<void> | void): void {
    this.#undo.push(undo);
  }

  /** The work's result, or a rejection with the signal's reason as soon as it is aborted. */
  async guard<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
    // Nobody waits for the work once it is interrupted, and it fails as its servers end.
    work.catch(() => undefined);
    let onAbort: () => void = () => undefined;
    const aborted = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
    });
    try {
      return await Promise.race([work, aborted]);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Runs each step, also after one has failed, and then throws the first failure. */
  async runAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const undo of this.#undo.splice(0).reverse()) {
      try {
        await undo();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}
