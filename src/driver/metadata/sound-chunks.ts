/**
 * The chunks of a scan that goes on with another source when a stored list fails: for the streams of the service, and for the
 * lists of transfers. Knows nothing of gRPC.
 */
import { SystemError } from '../../base/errors.js';
import type { SnapshotScan } from '../backends/snapshot-scan.js';
import type { ScanThreads } from '../native/scan-threads.js';
import { type ScanChunk, type ScanOptions, scan } from './scanner.js';

/** A list may be joined with another list while it is read, and a list of another chain may be damaged as well. */
const MAX_SOURCES = 4;

/** @param onRefused called with the failure when a stored list was wrong or missing, and was discarded */
export async function* soundChunks(
  threads: ScanThreads,
  first: SnapshotScan,
  options: ScanOptions,
  onRefused: (failure: SystemError) => void,
): AsyncGenerator<ScanChunk, void, undefined> {
  let { startingOffset } = options;
  let from = first;
  for (let count = 1; ; count += 1) {
    try {
      for await (const chunk of scan(threads, from.source, { ...options, startingOffset })) {
        yield chunk;
        // The start of a range that was found but not sent yet.
        startingOffset = chunk.result.nextRangeStart;
      }
      return;
    } catch (thrown) {
      if (!(thrown instanceof SystemError) || count === MAX_SOURCES) throw thrown;
      const other = await from.instead(thrown, () => onRefused(thrown));
      if (other === null) throw thrown;
      from = other;
    }
  }
}
