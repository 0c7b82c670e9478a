/**
 * Runs a scan in the addon, chunk by chunk.
 *
 * Each chunk is one bounded task on a stateless worker; the scan continues from the position that the
 * previous result returned. A consumer cancels the scan by not asking for the next chunk. Chunks grow as
 * the consumer takes them, and the next one is read ahead only after the first few, so that a client that
 * opens a stream and does not read costs only small chunks. Knows nothing of gRPC.
 */
import type { Turn } from '../../base/fair-turns.js';
import { toSystemError } from '../../base/system/native-result.js';
import type { FillRequest, FillResult, ScanSource } from '../native/addon.js';
import type { ScanThreads } from '../native/scan-threads.js';
import type { FillAnswer } from '../native/worker.js';

/** The most entries in one message; a client may ask for fewer. Larger messages add latency and gain nothing. */
export const MAX_ENTRIES_PER_MESSAGE = 8192;
/** Entries of the first chunks. The first is small, so that the first message is sent early. */
const FIRST_CHUNKS = [1024, 4096, 4096, 8192, 8192] as const;
/**
 * The most entries in a message of the first chunks. Together they are 25 messages, more than a client that does not read
 * accepts: its window of 64 KiB, and what its library reads ahead, which for gRPC of Node.js is 16 messages of any size.
 */
const FIRST_MESSAGE_ENTRIES = 1024;
/** Entries of the chunks after the first ones, and of all later chunks if there is no memory for large ones. */
const SMALL_CHUNK_ENTRIES = 8192;
/** Entries of a large chunk: the overhead of a chunk does not depend on its size. */
const CHUNK_ENTRIES = 65536;
/** How many chunks come before the first large one: two MiB, which is more than the window of most clients. */
const CHUNKS_BEFORE_LARGE = 24;
/** The most extents in a chunk. The limit bounds a task to about 0.2 s of FIEMAP on a shared XFS file, at first to 1/8. */
const CHUNK_EXTENTS = 131072;
const FIRST_CHUNK_EXTENTS = CHUNK_EXTENTS / 8;
/** Room for a full chunk of ordinary entries (13 to 22 bytes each) and their message headers. */
const BYTES_PER_ENTRY = 24;
/** Buffers of a scan with large chunks: the one being sent and the one being read ahead. */
const LARGE_BYTES = 2 * CHUNK_ENTRIES * BYTES_PER_ENTRY;

export interface ScanOptions {
  startingOffset: bigint;
  /** The most entries in one message; 0 if the plugin chooses. */
  maxResults: number;
  /** The caller's turn on the scan threads. Its signal ends the scan. */
  turn: Turn;
}

export interface ScanChunk {
  /** Encoded messages, valid until the next chunk is requested. */
  bytes: Uint8Array;
  result: FillResult;
}

/** The chunks of one scan, in order. The last one has `result.done`. Leave the loop to stop early. */
export async function* scan(
  threads: ScanThreads,
  source: ScanSource,
  options: ScanOptions,
): AsyncGenerator<ScanChunk, void, undefined> {
  const buffers = new ChunkBuffers(threads);
  let taken = 0;
  const ask = (request: FillRequest): Promise<FillAnswer> => {
    const answer = threads.fill(options.turn, request, () => buffers.take(request.maxEntries));
    // A chunk that is read ahead may fail before it is awaited, or after the consumer has left.
    answer.catch(() => undefined);
    return answer;
  };
  const size = (): ChunkSize => ({
    maxEntries: buffers.entriesFor(taken),
    maxEntriesPerMessage: entriesPerMessage(options.maxResults, taken),
  });
  try {
    let request = firstRequest(source, options.startingOffset, size());
    let pending: Promise<FillAnswer> | null = ask(request);
    while (pending !== null) {
      const { result, buffer } = await pending;
      if (!result.ok) throw toSystemError(result);
      const isSent = result.messages > 0 || result.done;
      const isAhead = !result.done && (taken >= FIRST_CHUNKS.length || !isSent);
      if (isAhead) {
        request = nextRequest(request, result, size());
        pending = ask(request);
      }
      if (isSent) {
        yield { bytes: new Uint8Array(buffer, 0, result.bytes), result };
        taken += 1;
      }
      buffers.give(buffer);
      if (result.done) return;
      if (!isAhead) {
        request = nextRequest(request, result, size());
        pending = ask(request);
      }
    }
  } finally {
    buffers.close();
  }
}

/** The buffers of one scan: small ones at first, then two large ones if memory permits. */
class ChunkBuffers {
  #isLarge = false;
  #idle: ArrayBuffer[] = [];

  constructor(private readonly threads: ScanThreads) {}

  /** @param taken how many chunks the consumer has taken so far */
  entriesFor(taken: number): number {
    const first = FIRST_CHUNKS[taken];
    if (first !== undefined) return first;
    if (taken < CHUNKS_BEFORE_LARGE) return SMALL_CHUNK_ENTRIES;
    this.#isLarge ||= this.threads.reserveMemory(LARGE_BYTES);
    return this.#isLarge ? CHUNK_ENTRIES : SMALL_CHUNK_ENTRIES;
  }

  take(entries: number): ArrayBuffer {
    const bytes = entries * BYTES_PER_ENTRY;
    const found = this.#idle.findIndex(({ byteLength }) => byteLength === bytes);
    return this.#idle.splice(found, found < 0 ? 0 : 1)[0] ?? new ArrayBuffer(bytes);
  }

  /** Returns a buffer that the consumer no longer needs. */
  give(buffer: ArrayBuffer): void {
    // Chunks only grow: smaller buffers are not needed again.
    this.#idle = this.#idle.filter(({ byteLength }) => byteLength >= buffer.byteLength);
    this.#idle.push(buffer);
  }

  close(): void {
    this.#idle = [];
    if (this.#isLarge) this.threads.releaseMemory(LARGE_BYTES);
    this.#isLarge = false;
  }
}

type ChunkSize = Pick<FillRequest, 'maxEntries' | 'maxEntriesPerMessage'>;

/** @param taken how many chunks the consumer has taken so far */
function entriesPerMessage(maxResults: number, taken: number): number {
  const most = taken < FIRST_CHUNKS.length ? FIRST_MESSAGE_ENTRIES : MAX_ENTRIES_PER_MESSAGE;
  return maxResults === 0 ? most : Math.min(maxResults, most);
}

function firstRequest(source: ScanSource, startingOffset: bigint, size: ChunkSize): FillRequest {
  return {
    source,
    offset: startingOffset,
    rangeStart: startingOffset,
    ...size,
    maxExtents: FIRST_CHUNK_EXTENTS,
    sendEmpty: true,
  };
}

function nextRequest(last: FillRequest, result: FillResult, size: ChunkSize): FillRequest {
  return {
    ...last,
    offset: result.nextOffset,
    rangeStart: result.nextRangeStart,
    ...size,
    maxExtents: Math.min(2 * last.maxExtents, CHUNK_EXTENTS),
    sendEmpty: last.sendEmpty && result.messages === 0,
  };
}
