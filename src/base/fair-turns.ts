/**
 * Fair scheduling of a few places among many waiters.
 *
 * Groups take turns first. Within a group every other turn goes to the peer that has used the least time so
 * far, so that a peer with little work is served soon, however busy the others are. The turns in between go to
 * the peer that was served longest ago, so that no peer starves. A new peer counts as served just now, so a client
 * that reconnects for every call gets every other turn at most. Turns of one peer keep their order. A waiter
 * whose signal aborts leaves the queue at once.
 */

/** Who asks for a turn. */
export interface Turn {
  /** Groups share the turns first: all peers of one group together get as many turns as all peers of another. */
  readonly group: string;
  /** Peers, such as clients, then share the turns of their group. */
  readonly peer: object;
  /** Aborted when the turn is no longer needed. */
  readonly signal: AbortSignal;
}

/** The use of the places by one group, or by one peer. */
interface Share {
  running: number;
  /** When it last got a place, or first asked for one; counted in turns. */
  servedAt: number;
  /** How long it has held places, ms. */
  usedMs: number;
}

/** A turn that was granted. Pass it to end() exactly once. */
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

  /** Resolves when the turn is granted; end() must follow. Rejects with the signal's reason. */
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

  /** The waiter to serve; the earliest among equals. The search is linear, because limits elsewhere bound the waiters. */
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
    // Groups are few and configured. Peers come and go as clients please, so they are held weakly.
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
