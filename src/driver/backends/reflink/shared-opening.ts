/**
 * A resource that is open only while it is used: callers that come while it is being opened share that opening, and the last
 * caller closes the resource.
 *
 * An opening on a dead disk never ends and holds a thread, so no second one must be started meanwhile; callers may give up
 * before the opening ends. The resource is closed exactly once: when the opening has ended and no caller uses the resource
 * any more, whichever comes last. A later caller opens it anew, because something else may be in its place by then. Knows
 * nothing of the resource.
 */

interface Opening<T> {
  /** How many callers wait for the resource or use it. */
  users: number;
  resource: Promise<T>;
  /** Null if the opening has not ended, or has failed. */
  opened: T | null;
}

export class SharedOpening<T extends { close(): void }> {
  /** The opening that has not ended. */
  #pending: Opening<T> | null = null;

  /** @param open rejects if there is nothing to close */
  constructor(private readonly open: () => Promise<T>) {}

  /** Whether an opening has not ended. */
  get isPending(): boolean {
    return this.#pending !== null;
  }

  /**
   * Runs `work` on the resource, which stays open until `work` has ended.
   *
   * @param wait waits for the opening; it may give up earlier, and then rejects
   */
  async use<R>(wait: (resource: Promise<T>) => Promise<T>, work: (resource: T) => Promise<R>): Promise<R> {
    const opening = this.#pending ?? this.#begin();
    opening.users += 1;
    try {
      return await work(await wait(opening.resource));
    } finally {
      opening.users -= 1;
      closeUnused(opening);
    }
  }

  #begin(): Opening<T> {
    const opening: Opening<T> = { users: 0, resource: this.open(), opened: null };
    this.#pending = opening;
    // This reaction to the end of the opening precedes those of callers: from here on nobody joins.
    opening.resource.then(
      (opened) => {
        this.#pending = null;
        opening.opened = opened;
        closeUnused(opening);
      },
      () => {
        this.#pending = null;
      },
    );
    return opening;
  }
}

function closeUnused<T extends { close(): void }>(opening: Opening<T>): void {
  if (opening.users > 0) return;
  opening.opened?.close();
}
