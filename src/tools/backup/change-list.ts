/**
 * Finds what a backup has to copy: the delta from the newest base that the driver still answers for, or else the
 * allocated ranges, or else everything. Every fallback is sound, and its reason is recorded. Knows how lists fail, not
 * how data is copied.
 */
import { StatusCode } from '../../base/errors.js';
import { isServiceError } from '../client/connection.js';
import { type Entry, InvalidListError } from '../client/list.js';
import { requestFor } from '../client/metadata-stream.js';
import { createProgress, InterruptedError, type OpenMetadata, readMetadata } from '../client/resumable-stream.js';
import { type RangesFile, writeRanges } from './ranges-file.js';

export interface ListRequest {
  open: OpenMetadata;
  snapshotId: string;
  /** The size of the device that is copied. */
  sizeBytes: bigint;
  /** Snapshots that have backups, in the order of the attempts. `problem` says why a snapshot cannot be the base. */
  bases: readonly { readonly id: string; readonly problem: string | null }[];
  /** Reasons why there is no base or no newer base, as far as they are known before the first list is read. */
  reasons: readonly string[];
  /** Lists everything if there is no delta, and not what the snapshot holds. */
  isWholeWithoutBase?: boolean;
  grainBytes: bigint;
  /** As in RangesOptions. */
  isTight?: boolean;
  /** Where the list is written. */
  path: string;
  signal: AbortSignal;
  /** Called before a broken stream is opened again. */
  onInterrupted?(error: Error, position: bigint): void;
  onProgress?(position: bigint): void;
}

export interface ChangeList {
  /** Null for a full backup. */
  readonly baseId: string | null;
  /** Why there is no base, or no newer one. */
  readonly reasons: readonly string[];
  readonly ranges: RangesFile;
}

/** Statuses that mean that one base or one RPC gives no list. Another base or RPC is tried then. */
const NO_LIST: ReadonlySet<number> = new Set([
  StatusCode.INVALID_ARGUMENT,
  StatusCode.NOT_FOUND,
  StatusCode.FAILED_PRECONDITION,
  StatusCode.OUT_OF_RANGE,
  StatusCode.UNIMPLEMENTED,
  // client/resumable-stream has already retried these two, so the driver cannot make this list.
  StatusCode.UNKNOWN,
  StatusCode.INTERNAL,
]);

/**
 * @throws InterruptedError if the driver cannot be reached, any refusal that would also apply to another base, and the
 *   signal's reason
 */
export async function readChangeList(request: ListRequest): Promise<ChangeList> {
  const reasons = [...request.reasons];
  for (const { id, problem } of request.bases) {
    if (problem !== null) {
      reasons.push(problem);
      continue;
    }
    const found = await attempt(request, id);
    if (typeof found !== 'string') return { baseId: id, reasons, ranges: found };
    reasons.push(`the driver gives no delta from snapshot ${id}: ${found}`);
  }
  if (request.isWholeWithoutBase === true) return { baseId: null, reasons, ranges: await everything(request) };
  const found = await attempt(request, null);
  if (typeof found !== 'string') return { baseId: null, reasons, ranges: found };
  reasons.push(`the driver does not list the allocated ranges either: ${found}`);
  return { baseId: null, reasons, ranges: await everything(request) };
}

/** Returns the ranges, or the reason why the driver does not give this list. */
async function attempt(request: ListRequest, baseId: string | null): Promise<RangesFile | string> {
  const progress = createProgress();
  const { signal, sizeBytes, grainBytes, isTight, path, onInterrupted, onProgress } = request;
  const entries = readMetadata(request.open, requestFor(request.snapshotId, baseId), {
    signal,
    progress,
    onInterrupted: (error, position) => onInterrupted?.(error, position),
  });
  const listed = withinDevice(entries, () => progress.capacityBytes ?? 0n, sizeBytes);
  try {
    return await writeRanges(listed, {
      of: `snapshot ${request.snapshotId}`,
      path,
      grainBytes,
      sizeBytes: () => sizeBytes,
      isTight,
      onProgress,
    });
  } catch (thrown) {
    signal.throwIfAborted();
    const refusal = refusalIn(thrown);
    if (refusal === null) throw thrown;
    return refusal;
  }
}

/**
 * Fits the list to the device: leaves out what lies beyond the end of the device. If the driver has made the device
 * larger than the capacity in the list, adds the part of the device beyond this capacity.
 */
async function* withinDevice(
  batches: AsyncIterable<Entry[]>,
  capacityBytes: () => bigint,
  sizeBytes: bigint,
): AsyncGenerator<Entry[]> {
  for await (const batch of batches) {
    yield batch.flatMap(({ offset, size }) => {
      const end = offset + size < sizeBytes ? offset + size : sizeBytes;
      return end > offset ? [{ offset, size: end - offset }] : [];
    });
  }
  const capacity = capacityBytes();
  if (capacity < sizeBytes) yield [{ offset: capacity, size: sizeBytes - capacity }];
}

/** Returns the driver's message if another list may be tried after the failure, and null otherwise. */
function refusalIn(thrown: unknown): string | null {
  if (thrown instanceof InvalidListError) return thrown.message;
  const error = thrown instanceof InterruptedError ? thrown.cause : thrown;
  return isServiceError(error) && NO_LIST.has(error.code) ? error.details : null;
}

/** Lists the whole device as one range. */
function everything({ snapshotId, sizeBytes, path }: ListRequest): Promise<RangesFile> {
  const grainBytes = WHOLE_GRAIN_BYTES;
  return writeRanges(once({ offset: 0n, size: sizeBytes }), {
    of: `snapshot ${snapshotId}`,
    path,
    grainBytes,
    sizeBytes: () => sizeBytes,
  });
}

const WHOLE_GRAIN_BYTES = 4096n;

async function* once(entry: Entry): AsyncGenerator<Entry[]> {
  if (entry.size > 0n) yield [entry];
}
