/**
 * Pulls a scan out of the addon chunk by chunk.
 *
 * Each chunk is one bounded task on a worker that knows nothing of the one before; what carries the
 * scan forward is the position in the last answer. A consumer that stops asking has cancelled the
 * scan. Chunks grow as the consumer takes them, and only one that has taken the first few is read ahead
 * for: a client that opens a stream and does not read costs small chunks only. Knows nothing of gRPC.
 */
import type { Turn } from '../base/fair-turns.js';
import type { FillRequest, FillResult, ScanSource } from '../native/addon.js';
import { toSystemError } from '../native/pool.js';
import type { ScanThreads } from '../native/scan-threads.js';
import type { FillAnswer } from '../native/worker.js';

/** What one message may hold; a client may ask for less. Bigger ones cost latency and gain nothing. */
export const MAX_ENTRIES_PER_MESSAGE = 8192;
/**
 * Entries of the first chunks. The first is small so that the first message leaves early; all together are
 * more than a client takes that does not read (its window of 64 KiB and what its library reads ahead).
 */
const FIRST_CHUNKS = [1024, 4096, 4096] as const;
/** Of the chunks after them, and of all later ones when there is no memory for large ones. */
const SMALL_CHUNK_ENTRIES = 8192;
/** A pull costs per task and not per entry, so chunks are large in the end. */
const CHUNK_ENTRIES = 65536;
/** How many chunks are taken before that: more messages than a client's library reads by itself. */
const CHUNKS_BEFORE_LARGE = 24;
/** Bounds the time of one task: about 0.2 s of FIEMAP on a shared XFS file, an eighth of it at first. */
const CHUNK_EXTENTS = 131072;
const FIRST_CHUNK_EXTENTS = CHUNK_EXTENTS / 8;
/** Holds a full chunk of ordinary entries (13 to 22 bytes each) behind their message heads. */
const BYTES_PER_ENTRY = 24;
/** Of a scan with large chunks: the one that is sent and the one ahead. */
const LARGE_BYTES = 2 * CHUNK_ENTRIES * BYTES_PER_ENTRY;

export interface ScanOptions {
  startingOffset: bigint;
  /** Entries in one message at most; 0: the plugin chooses. */
  maxResults: number;
  /** On whose behalf; its signal ends the scan. */
  turn: Turn;
}

export interface ScanChunk {
  /** Wire bytes: valid until the next chunk is asked for. */
  bytes: Uint8Array;
  result: FillResult;
}

/** The chunks of one scan, in order. The last one has `result.done`; stop early by leaving the loop. */
export async function* scan(
  threads: ScanThreads,
  source: ScanSource,
  options: ScanOptions,
): AsyncGenerator<ScanChunk, void, undefined> {
  const buffers = new ChunkBuffers(threads);
  let taken = 0;
  const ask = (request: FillRequest): Promise<FillAnswer> => {
    const answer = threads.fill(options.turn, request, () => buffers.take(request.maxEntries));
    // The chunk ahead may fail while nobody awaits it yet, or after the consumer has left.
    answer.catch(() => undefined);
    return answer;
  };
  try {
    let request = firstRequest(source, options);
    let pending: Promise<FillAnswer> | null = ask(request);
    while (pending !== null) {
      const { result, buffer } = await pending;
      if (!result.ok) throw toSystemError(result);
      const isSent = result.messages > 0 || result.done;
      const isAhead = !result.done && (taken >= FIRST_CHUNKS.length || !isSent);
      if (isAhead) {
        request = nextRequest(request, result, buffers.entriesFor(taken));
        pending = ask(request);
      }
      if (isSent) {
        yield { bytes: new Uint8Array(buffer, 0, result.bytes), result };
        taken += 1;
      }
      buffers.give(buffer);
      if (result.done) return;
      if (!isAhead) {
        request = nextRequest(request, result, buffers.entriesFor(taken));
        pending = ask(request);
      }
    }
  } finally {
    buffers.close();
  }
}

/** The buffers of one scan: small ones at first, then two large ones if there is memory for them. */
class ChunkBuffers {
  readonly #threads: ScanThreads;
  #isLarge = false;
  #idle: ArrayBuffer[] = [];

  constructor(threads: ScanThreads) {
    this.#threads = threads;
  }

  /** How many entries the next chunk may have, of a scan whose consumer has taken so many chunks. */
  entriesFor(taken: number): number {
    const first = FIRST_CHUNKS[taken];
    if (first !== undefined) return first;
    if (taken < CHUNKS_BEFORE_LARGE) return SMALL_CHUNK_ENTRIES;
    this.#isLarge ||= this.#threads.takeMemory(LARGE_BYTES);
    return this.#isLarge ? CHUNK_ENTRIES : SMALL_CHUNK_ENTRIES;
  }

  take(entries: number): ArrayBuffer {
    const bytes = entries * BYTES_PER_ENTRY;
    const found = this.#idle.findIndex(({ byteLength }) => byteLength === bytes);
    return this.#idle.splice(found, found < 0 ? 0 : 1)[0] ?? new ArrayBuffer(bytes);
  }

  /** Takes back one that the consumer is done with. */
  give(buffer: ArrayBuffer): void {
    // Smaller ones will not be needed again.
    this.#idle = this.#idle.filter(({ byteLength }) => byteLength >= buffer.byteLength);
    this.#idle.push(buffer);
  }

  close(): void {
    this.#idle = [];
    if (this.#isLarge) this.#threads.giveMemory(LARGE_BYTES);
    this.#isLarge = false;
  }
}

function firstRequest(source: ScanSource, options: ScanOptions): FillRequest {
  const perMessage =
    options.maxResults === 0
      ? MAX_ENTRIES_PER_MESSAGE
      : Math.min(options.maxResults, MAX_ENTRIES_PER_MESSAGE);
  return {
    source,
    offset: options.startingOffset,
    rangeStart: options.startingOffset,
    maxEntries: FIRST_CHUNKS[0],
    maxEntriesPerMessage: perMessage,
    maxExtents: FIRST_CHUNK_EXTENTS,
    sendEmpty: true,
  };
}

function nextRequest(last: FillRequest, result: FillResult, maxEntries: number): FillRequest {
  return {
    ...last,
    offset: result.nextOffset,
    rangeStart: result.nextRangeStart,
    maxEntries,
    maxExtents: Math.min(2 * last.maxExtents, CHUNK_EXTENTS),
    sendEmpty: last.sendEmpty && result.messages === 0,
  };
}
