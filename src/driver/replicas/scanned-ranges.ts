/** The ranges of a scan, for the list of a piece: the scan as a stream sends it, decoded. Knows no snapshots. */
import { readRanges } from '../../base/csi/range-reader.js';
import type { Turn } from '../../base/fair-turns.js';
import type { SnapshotScan } from '../backends/snapshot-scan.js';
import { soundChunks } from '../metadata/sound-chunks.js';
import type { ScanThreads } from '../native/scan-threads.js';
import type { Range, Ranges } from '../transfer/piece-list.js';

/** Of a gRPC frame: a byte and the length of the message. */
const FRAME_HEAD_BYTES = 5;

/** The ranges from an offset on. Fails as the scan does. */
export async function* scannedRanges(
  threads: ScanThreads,
  found: SnapshotScan,
  startingOffset: bigint,
  turn: Turn,
): Ranges & AsyncGenerator<readonly Range[]> {
  const options = { startingOffset, maxResults: 0, turn };
  for await (const { bytes } of soundChunks(threads, found, options, () => undefined)) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length; ) {
      const end = at + FRAME_HEAD_BYTES + view.getUint32(at + 1);
      const ranges: Range[] = [];
      readRanges(bytes.subarray(at + FRAME_HEAD_BYTES, end), (offset, size) => {
        ranges.push({ offset: BigInt(offset), size: BigInt(size) });
      });
      yield ranges;
      at = end;
    }
  }
}
