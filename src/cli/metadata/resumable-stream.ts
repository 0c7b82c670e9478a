/**
 * One list of ranges from as many streams as it takes: a stream that is interrupted is opened again
 * behind the last entry received. Knows how streams break, and not how a list is shown.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';
import { isServiceError, type MetadataMessage, type MetadataRequest } from '../client.js';
import { type Entry, MetadataList } from './list.js';

export type OpenMetadata = (
  request: MetadataRequest,
  signal: AbortSignal,
) => AsyncIterable<MetadataMessage>;

export interface MetadataProgress {
  capacityBytes: bigint | null;
  messages: number;
  resumes: number;
  /** From the first request to the first message; null before it. */
  firstMessageMs: number | null;
}

export interface ReadOptions {
  signal: AbortSignal;
  /** Kept up to date while reading. */
  progress: MetadataProgress;
  /** Called before a stream is opened again. */
  onInterrupted(error: Error, position: bigint): void;
  /** The first pause before trying again; it doubles with every try that brought nothing. */
  retryDelayMs?: number;
}

/** The plugin could not be reached, or kept breaking off, so often that we gave up. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
}

const MAX_TRIES_WITHOUT_PROGRESS = 5;
const RETRY_DELAY_MS = 200;

/**
 * Failures that say something about the moment and not about the snapshots, so that asking again
 * may help. Going on at an offset is lawful at any time, so trying once too often does no harm: that
 * is why UNKNOWN and INTERNAL are here, which stand for broken connections as well as for bugs.
 * RESOURCE_EXHAUSTED is not: whatever has run out will not come back by asking harder.
 */
const INTERRUPTIONS: ReadonlySet<number> = new Set([
  StatusCode.CANCELLED,
  StatusCode.UNKNOWN,
  StatusCode.DEADLINE_EXCEEDED,
  StatusCode.ABORTED,
  StatusCode.INTERNAL,
  StatusCode.UNAVAILABLE,
]);

export function createProgress(): MetadataProgress {
  return { capacityBytes: null, messages: 0, resumes: 0, firstMessageMs: null };
}

/**
 * Batches of entries, in order, the whole list.
 *
 * @throws ServiceError for a failure that is final, InvalidListError, InterruptedError, or the
 *   signal's reason
 */
export async function* readMetadata(
  open: OpenMetadata,
  request: MetadataRequest,
  options: ReadOptions,
): AsyncGenerator<Entry[], void, undefined> {
  const { signal, progress, onInterrupted } = options;
  const list = new MetadataList(request.startingOffset);
  const started = performance.now();
  let barrenTries = 0;
  for (;;) {
    const before = list.position;
    try {
      const part = { ...request, startingOffset: list.position };
      for await (const message of open(part, signal)) {
        progress.firstMessageMs ??= performance.now() - started;
        progress.messages += 1;
        const entries = list.accept(message);
        progress.capacityBytes = list.capacityBytes;
        if (entries.length > 0) yield entries;
      }
      break;
    } catch (error) {
      signal.throwIfAborted();
      if (!isServiceError(error) || !INTERRUPTIONS.has(error.code)) throw error;
      if (list.isComplete) break;
      barrenTries = list.position > before ? 0 : barrenTries + 1;
      if (barrenTries >= MAX_TRIES_WITHOUT_PROGRESS) throw gaveUp(error);
      onInterrupted(error, list.position);
    }
    progress.resumes += 1;
    list.resume();
    await delay((options.retryDelayMs ?? RETRY_DELAY_MS) * 2 ** barrenTries, undefined, { signal });
  }
  yield list.finish();
}

function gaveUp(error: Error): InterruptedError {
  return new InterruptedError(
    `gave up after ${MAX_TRIES_WITHOUT_PROGRESS} tries that brought nothing`,
    { cause: error },
  );
}
