/**
 * A few places for many who want one: whose turn it is.
 *
 * Groups take turns first. Within a group every other turn is that of the peer that has had the least time
 * so far, so that one that wants little gets it soon, however many want much; the turns between are those
 * of the peer that has waited longest, so that nobody waits for ever. A new peer has waited for nothing yet:
 * a client that comes back as somebody else each time gets every other turn at most. Turns of one peer come in
 * the order they were asked for. Whoever gives up while it waits is dropped before it costs anything.
 */

/** On whose behalf a turn is wanted. */
export interface Turn {
  /** What is shared first: all of one group together get as many turns as all of another. */
  readonly group: string;
  /** Whose turns are shared next, such as a client. */
  readonly peer: object;
  /** Aborted when nobody wants the turn any more. */
  readonly signal: AbortSignal;
}

/** What one group, or one peer, has of the places. */
interface Share {
  running: number;
  /** When it was last given a place, or first wanted one, counted in turns. */
  servedAt: number;
  /** How long it has held places, ms. */
  usedMs: number;
}

/** A turn that has come: to be ended once. */
export interface Held {
  readonly turn: Turn;
  readonly since: number;
}

interface Waiter {
  readonly turn: Turn;
  readonly start: (held: Held) => void;
}

export class FairTurns {
  #free: number;
  #turns = 0;
  readonly #waiting = new Set<Waiter>();
  readonly #groups = new Map<string, Share>();
  readonly #peers = new WeakMap<object, Share>();

  constructor(places: number) {
    this.#free = places;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Resolves when the turn has come; end() must follow. Rejects with the signal's reason. */
  async begin(turn: Turn): Promise<Held> {
    turn.signal.throwIfAborted();
    if (this.#free > 0) {
      return this.#serve(turn);
    }
    return new Promise<Held>((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(waiter);
        reject(turn.signal.reason);
      };
      const start = (held: Held): void => {
        turn.signal.removeEventListener('abort', onAbort);
        resolve(held);
      };
      const waiter: Waiter = { turn, start };
      turn.signal.addEventListener('abort', onAbort, { once: true });
      this.#waiting.add(waiter);
    });
  }

  end({ turn, since }: Held): void {
    this.#free += 1;
    for (const share of this.#sharesOf(turn)) {
      share.running -= 1;
      share.usedMs += performance.now() - since;
    }
    const next = this.#next();
    if (next === null) return;
    this.#waiting.delete(next);
    next.start(this.#serve(next.turn));
  }

  #serve(turn: Turn): Held {
    this.#free -= 1;
    this.#turns += 1;
    for (const share of this.#sharesOf(turn)) {
      share.running += 1;
      share.servedAt = this.#turns;
    }
    return { turn, since: performance.now() };
  }

  /** Of those with the same claim the first that came. Limits elsewhere bound how many there are. */
  #next(): Waiter | null {
    let best: Waiter | null = null;
    for (const waiter of this.#waiting) {
      if (best === null || this.#precedes(waiter.turn, best.turn)) best = waiter;
    }
    return best;
  }

  #precedes(turn: Turn, other: Turn): boolean {
    const [group, peer] = this.#sharesOf(turn);
    const [otherGroup, otherPeer] = this.#sharesOf(other);
    if (group !== otherGroup) return isBehind(group, otherGroup);
    if (peer === otherPeer) return false;
    return this.#turns % 2 === 0 ? peer.usedMs < otherPeer.usedMs : isBehind(peer, otherPeer);
  }

  #sharesOf(turn: Turn): readonly [group: Share, peer: Share] {
    // Groups are few and nobody's to choose; a peer becomes a new one as often as it likes.
    return [shareOf(this.#groups, turn.group, 0), shareOf(this.#peers, turn.peer, this.#turns)];
  }
}

interface Shares<Key> {
  get(key: Key): Share | undefined;
  set(key: Key, share: Share): unknown;
}

function shareOf<Key>(shares: Shares<Key>, key: Key, servedAt: number): Share {
  const known = shares.get(key);
  if (known !== undefined) return known;
  const share = { running: 0, servedAt, usedMs: 0 };
  shares.set(key, share);
  return share;
}

function isBehind(share: Share, other: Share): boolean {
  if (share.running !== other.running) return share.running < other.running;
  return share.servedAt < other.servedAt;
}
