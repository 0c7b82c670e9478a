/** A server whose snapshots are generated instead of read from a pool: see pattern.ts. */
import { EXTENT_BYTES, patternBytes, patternEntries, STRIDE_BYTES } from './pattern.js';
import { serveScans } from './scan-server.js';

const sizeOf = (snapshotId: string): bigint => BigInt(patternBytes(patternEntries(snapshotId)));

await serveScans(
  async (snapshotId) => ({
    kind: 'pattern',
    sizeBytes: sizeOf(snapshotId),
    extentBytes: BigInt(EXTENT_BYTES),
    strideBytes: BigInt(STRIDE_BYTES),
  }),
  (snapshotId) => ({ sizeBytes: sizeOf(snapshotId), sequence: 1n }),
);
