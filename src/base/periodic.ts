/** Work that is repeated until it is stopped. Knows nothing of the work. */

/** Runs one round at a time, each some time after the end of the round before. Does not keep the process alive. */
export class Periodic {
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | null = null;
  /** start() was called since the last round began. */
  #isAsked = false;
  #isStopped = false;
  #isOver = false;

  /**
   * @param waitMs the wait before the first round and, unless the work says otherwise, before each later one
   * @param work the work of one round, which never rejects. May resolve to the wait in ms before the next round, or to null:
   *   then no round follows until start() is called. A call since the round began counts.
   */
  constructor(
    private readonly waitMs: number,
    private readonly work: () => Promise<void> | Promise<number | null>,
  ) {}

  /** Whether pause() or stop() keeps a round from following the one under way. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** The first round begins after `waitMs`. While rounds are repeated, changes nothing. */
  start(): void {
    if (this.#isOver) return;
    this.#isStopped = false;
    this.#isAsked = true;
    if (this.#timer === undefined && this.#round === null) this.#wait(this.waitMs);
  }

  /** Resolves when no round is under way. Rounds are repeated again after start(). */
  async pause(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#round;
  }

  /** As pause(), for good: start() changes nothing any more. */
  async stop(): Promise<void> {
    this.#isOver = true;
    await this.pause();
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#round = this.#run();
    }, ms).unref();
  }

  async #run(): Promise<void> {
    this.#isAsked = false;
    const next = await this.work();
    this.#round = null;
    if (this.#isStopped || (next === null && !this.#isAsked)) return;
    this.#wait(typeof next === 'number' ? next : this.waitMs);
  }
}
