/** Undoes what a suite has made, also when it fails or is interrupted. */

export class Cleanup {
  readonly #undo: Array<() => Promise<void> | void> = [];

  /** Registers a step; the latest registered runs first. */
  defer(undo: () => Promise<void> | void): void {
    this.#undo.push(undo);
  }

  /** The work's result, or a rejection as soon as this process is told to end. */
  async guard<T>(work: Promise<T>): Promise<T> {
    const signals = ['SIGINT', 'SIGTERM'] as const;
    let interrupt: (signal: string) => void = () => undefined;
    const interrupted = new Promise<never>((_, reject) => {
      interrupt = (signal) => reject(new Error(`interrupted by ${signal}`));
    });
    for (const signal of signals) process.once(signal, interrupt);
    // Nobody waits for the work once it is interrupted, and it fails as its servers end.
    work.catch(() => undefined);
    try {
      return await Promise.race([work, interrupted]);
    } finally {
      for (const signal of signals) process.removeListener(signal, interrupt);
    }
  }

  /** Runs every step, also after one has failed, and then throws the first failure. */
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
