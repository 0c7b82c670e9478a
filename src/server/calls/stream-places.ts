/**
 * Limits how many streams are open at once. At the limit, decides which open stream ends to make room for a new stream.
 *
 * Only a stream of the same peer, or of a peer with more streams, can be ended. The first choice is the stream whose client has
 * read nothing for the longest time, so that clients which open streams and do not read cannot block others. If all clients
 * read, the choice is the newest stream of the peer with the most streams, provided that this peer then still has at least as
 * many streams as the peer of the new stream. Knows neither gRPC nor what is streamed.
 */
import { CsiError } from '../../base/errors.js';

export interface OpenStream {
  /** The connection of the stream, or its client behind a router. */
  readonly peer: object;
  /** Since when (performance.now()) a message has waited for the client to read; null if no message waits. */
  readonly stalledSince: number | null;
  end(reason: CsiError): void;
}

/** A client that reads takes a waiting message much sooner than this, even on a busy machine. */
const MIN_STALL_MS = 250;

export class StreamPlaces {
  readonly #open = new Set<OpenStream>();

  constructor(private readonly limit: number) {}

  /** Throws RESOURCE_EXHAUSTED if there is no place and no stream can be ended. leave() must follow. */
  enter(stream: OpenStream): void {
    if (this.#open.size >= this.limit && !this.#makePlace(stream.peer)) {
      throw CsiError.resourceExhausted(
        `${this.limit} streams are open, which is the limit; try again when one has ended`,
      );
    }
    this.#open.add(stream);
  }

  leave(stream: OpenStream): void {
    this.#open.delete(stream);
  }

  /** Ends a stream to make room for a stream of this peer. Returns false if no stream can be ended. */
  #makePlace(peer: object): boolean {
    const counts = new Map<object, number>([[peer, 0]]);
    for (const stream of this.#open) counts.set(stream.peer, (counts.get(stream.peer) ?? 0) + 1);
    const ended = this.#longestStalled(peer, counts) ?? this.#lastOfMost(peer, counts);
    if (ended === null) return false;
    this.#open.delete(ended);
    ended.end(
      CsiError.resourceExhausted(
        'too many streams are open, and this one was ended for a new one; ' +
          'call again with starting_offset after the last range received',
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
