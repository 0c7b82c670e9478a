/** Work that is repeated until it is stopped. Knows nothing of the work. */

/** Runs one round at a time, each an interval after the end of the round before. Does not keep the process alive. */
export class Periodic {
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isStopped = false;

  /** @param work the work of one round, which never rejects */
  constructor(
    private readonly intervalMs: number,
    private readonly work: () => Promise<void>,
  ) {}

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** The first round begins after one interval. */
  start(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#round = this.work().finally(() => this.start());
    }, this.intervalMs).unref();
  }

  /** Stops for good. Resolves when no round is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#round;
  }
}
