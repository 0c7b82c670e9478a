/**
 * Runs at most one operation of a kind at a time. Callers that come while the operation runs share its result.
 *
 * This is for questions to storage that may be dead. Each question holds a thread until it is answered, so a second question
 * must not start before the first has ended, however long that takes. Callers bound their own waiting with withTimeout.
 */
export class SingleFlight<Key, T> {
  readonly #running = new Map<Key, Promise<T>>();

  run(key: Key, operation: () => Promise<T>): Promise<T> {
    const running = this.#running.get(key);
    if (running !== undefined) return running;
    const started = operation().finally(() => this.#running.delete(key));
    this.#running.set(key, started);
    return started;
  }
}
