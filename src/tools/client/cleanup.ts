/** Undoes what a command has made, also when it fails or is interrupted. */

export class Cleanup {
  readonly #undo: Array<() => Promise<void> | void> = [];

  /** Registers a step; the latest registered runs first. */
  defer(undo: () => Promise<void> | void): void {
    this.#undo.push(undo);
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
