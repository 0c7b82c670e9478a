/** Closes what a start has opened: when the plugin stops, or when a later step of the start fails. */
export class Teardown {
  readonly #steps: (() => Promise<void>)[] = [];

  /** @param close called once, before the steps that were added earlier */
  add(close: () => Promise<void>): void {
    this.#steps.push(close);
  }

  /** A step that fails does not keep the others from running. Throws the first failure. */
  async run(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.#steps.splice(0).reverse()) {
      await close().catch((thrown: unknown) => failures.push(thrown));
    }
    if (failures.length > 0) throw failures[0];
  }
}
