/**
 * Pulls a scan out of the addon chunk by chunk, one chunk ahead of the consumer.
 *
 * Each chunk is one bounded task on a worker that knows nothing of the one before; what carries the
 * scan forward is the position in the last answer. A consumer that stops asking has cancelled the
 * scan; a slow one holds two buffers and no thread. Knows nothing of gRPC.
 */
import type { FillRequest, FillResult, ScanSource } from './addon.js';
import { type NativeFiller, toSystemError } from './pool.js';
import type { FillAnswer } from './worker.js';

/** What one message may hold; a client may ask for less. Bigger ones cost latency and gain nothing. */
export const MAX_ENTRIES_PER_MESSAGE = 8192;
/** The first chunk is small so that the first message leaves early. */
const FIRST_CHUNK_ENTRIES = 1024;
/** A pull costs per task and not per entry, so later chunks are large. */
const CHUNK_ENTRIES = 65536;
/** Bounds the time of one task: about 0.2 s of FIEMAP on a shared XFS file. */
const CHUNK_EXTENTS = 131072;
/** Holds a full chunk of ordinary entries (13 to 22 bytes each) behind their message heads. */
const BUFFER_BYTES = 1536 * 1024;

export interface ScanOptions {
  startingOffset: bigint;
  /** Entries in one message at most; 0: the plugin chooses. */
  maxResults: number;
}

export interface ScanChunk {
  /** Wire bytes: valid until the next chunk is asked for. */
  bytes: Uint8Array;
  result: FillResult;
}

/** The chunks of one scan, in order. The last one has `result.done`; stop early by leaving the loop. */
export async function* scan(
  filler: NativeFiller,
  source: ScanSource,
  options: ScanOptions,
): AsyncGenerator<ScanChunk, void, undefined> {
  const idle = [new ArrayBuffer(BUFFER_BYTES), new ArrayBuffer(BUFFER_BYTES)];
  const ask = (request: FillRequest): Promise<FillAnswer> => {
    const answer = filler.fill(request, idle.pop() ?? new ArrayBuffer(BUFFER_BYTES));
    // The chunk ahead may fail while nobody awaits it yet, or after the consumer has left.
    answer.catch(() => undefined);
    return answer;
  };
  let request = firstRequest(source, options);
  let pending: Promise<FillAnswer> | null = ask(request);
  while (pending !== null) {
    const { result, buffer } = await pending;
    if (!result.ok) throw toSystemError(result);
    if (result.done) {
      pending = null;
    } else {
      request = nextRequest(request, result);
      pending = ask(request);
    }
    if (result.messages > 0 || result.done) {
      yield { bytes: new Uint8Array(buffer, 0, result.bytes), result };
    }
    idle.push(buffer);
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
    maxEntries: FIRST_CHUNK_ENTRIES,
    maxEntriesPerMessage: perMessage,
    maxExtents: CHUNK_EXTENTS,
    sendEmpty: true,
  };
}

function nextRequest(last: FillRequest, result: FillResult): FillRequest {
  return {
    ...last,
    offset: result.nextOffset,
    rangeStart: result.nextRangeStart,
    maxEntries: CHUNK_ENTRIES,
    sendEmpty: last.sendEmpty && result.messages === 0,
  };
}
