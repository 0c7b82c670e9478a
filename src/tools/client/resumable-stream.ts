/**
 * Reads one list over as many streams as needed: after an interruption, opens another stream at the end of the last
 * received entry. Knows how streams fail, not how a list is printed.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';
import { isServiceError } from './connection.js';
import { type Entry, MetadataList } from './list.js';
import type { MetadataMessage, MetadataRequest } from './metadata-stream.js';

export type OpenMetadata = (request: MetadataRequest, signal: AbortSignal) => AsyncIterable<MetadataMessage>;

export interface MetadataProgress {
  capacityBytes: bigint | null;
  messages: number;
  resumes: number;
  /** From the first request to the first message; null before the first message. */
  firstMessageMs: number | null;
}

export interface ReadOptions {
  signal: AbortSignal;
  /** Kept up to date while reading. */
  progress: MetadataProgress;
  /** Called before a stream is opened again. */
  onInterrupted(error: Error, position: bigint): void;
  /** The first pause before a retry; it doubles with every attempt without progress. */
  retryDelayMs?: number;
}

/** The plugin could not be reached, or its streams kept failing, in too many attempts. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
}

const MAX_ATTEMPTS_WITHOUT_PROGRESS = 5;
const RETRY_DELAY_MS = 200;

/**
 * Transient failures, after which another attempt may succeed. A client may resume at any offset at any time, so a
 * needless attempt is harmless. Therefore UNKNOWN and INTERNAL are included, which stand for broken connections as well
 * as for bugs. RESOURCE_EXHAUSTED is not included, because retrying only adds load.
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
 * Yields the whole list in order, in batches of entries.
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
  let attemptsWithoutProgress = 0;
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
      attemptsWithoutProgress = list.position > before ? 0 : attemptsWithoutProgress + 1;
      if (attemptsWithoutProgress >= MAX_ATTEMPTS_WITHOUT_PROGRESS) throw gaveUp(error);
      onInterrupted(error, list.position);
    }
    progress.resumes += 1;
    list.resume();
    await delay((options.retryDelayMs ?? RETRY_DELAY_MS) * 2 ** attemptsWithoutProgress, undefined, { signal });
  }
  yield list.finish();
}

function gaveUp(error: Error): InterruptedError {
  return new InterruptedError(`gave up after ${MAX_ATTEMPTS_WITHOUT_PROGRESS} attempts without progress`, {
    cause: error,
  });
}
