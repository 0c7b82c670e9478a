/**
 * Something that is open only while it is used: callers that come while it is being opened share that opening,
 * and the last one closes it.
 *
 * An opening on a dead disk never ends and holds a thread, so a second one must not be started meanwhile; its callers
 * may give up before it ends. It is closed exactly once: when it has ended and nobody uses it any more, whichever
 * comes last. A caller that comes later opens anew, since something else may be in that place by then. Knows
 * nothing of what is opened.
 */

interface Opening<T> {
  /** How many callers wait for it or use it. */
  users: number;
  resource: Promise<T>;
  /** Null: it has not ended, or has failed. */
  opened: T | null;
}

export class SharedOpening<T extends { close(): void }> {
  /** The one that has not ended. */
  #pending: Opening<T> | null = null;

  /** @param open rejects if there is nothing to close */
  constructor(private readonly open: () => Promise<T>) {}

  /**
   * Runs `work` on the resource, which stays open until `work` has ended.
   *
   * @param wait waits for the opening; it may give up earlier, and then rejects
   */
  async use<R>(
    wait: (resource: Promise<T>) => Promise<T>,
    work: (resource: T) => Promise<R>,
  ): Promise<R> {
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
    // The first reaction to the end, before those of callers: from here on nobody joins.
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
