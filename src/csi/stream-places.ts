/**
 * How many streams there may be at once, and which of them gives way to a new one at the limit.
 *
 * Only a stream of the same connection gives way, or one of a connection that has more. First the one whose
 * client has taken nothing for the longest time: so clients that open streams and do not read keep nobody
 * out. If all are read, the last one of the connection that has the most, if it still has as many as the
 * new one's then. Knows neither gRPC nor what is streamed.
 */
import { CsiError } from '../base/errors.js';

/** What this file needs of an open stream. */
export interface OpenStream {
  /** Whose it is. */
  readonly peer: object;
  /** Since when its client has taken nothing though something waits for it (performance.now()), or null. */
  readonly stalledSince: number | null;
  /** Ends it. */
  end(reason: CsiError): void;
}

/** A client that reads takes what waits for it long before that, on a busy machine too. */
const MIN_STALL_MS = 250;

export class StreamPlaces {
  readonly #limit: number;
  readonly #open = new Set<OpenStream>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Throws RESOURCE_EXHAUSTED if there is no place and none can be made. leave() must follow. */
  enter(stream: OpenStream): void {
    if (this.#open.size >= this.#limit && !this.#makePlace(stream.peer)) {
      throw CsiError.resourceExhausted(
        `${this.#limit} streams are open, and that is the limit; try again when one has ended`,
      );
    }
    this.#open.add(stream);
  }

  leave(stream: OpenStream): void {
    this.#open.delete(stream);
  }

  /** Whether one gave way to a stream of this peer. */
  #makePlace(peer: object): boolean {
    const counts = new Map<object, number>([[peer, 0]]);
    for (const stream of this.#open) counts.set(stream.peer, (counts.get(stream.peer) ?? 0) + 1);
    const loser = this.#longestStalled(peer, counts) ?? this.#lastOfMost(peer, counts);
    if (loser === null) return false;
    this.#open.delete(loser);
    loser.end(
      CsiError.resourceExhausted(
        'too many streams are open, and this one gave way to another; ' +
          'call again with starting_offset behind the last range received',
      ),
    );
    return true;
  }

  #longestStalled(peer: object, counts: Counts): OpenStream | null {
    let longest: OpenStream | null = null;
    let since = performance.now() - MIN_STALL_MS;
    for (const stream of this.#open) {
      const { stalledSince } = stream;
      if (stalledSince === null || stalledSince > since) continue;
      if (stream.peer !== peer && countOf(counts, stream.peer) <= countOf(counts, peer)) continue;
      longest = stream;
      since = stalledSince;
    }
    return longest;
  }

  #lastOfMost(peer: object, counts: Counts): OpenStream | null {
    const most = Math.max(...counts.values());
    if (most - 1 <= countOf(counts, peer)) return null;
    let last: OpenStream | null = null;
    for (const stream of this.#open) if (countOf(counts, stream.peer) === most) last = stream;
    return last;
  }
}

/** Open streams of each peer. */
type Counts = ReadonlyMap<object, number>;

const countOf = (counts: Counts, peer: object): number => counts.get(peer) ?? 0;
