/** A server whose snapshots are generated instead of read from a pool: see pattern.ts. */
import { EXTENT_BYTES, patternOf } from './pattern.js';
import { serveScans } from './scan-server.js';

await serveScans(
  async (snapshotId) => {
    const { sizeBytes, strideBytes } = patternOf(snapshotId);
    return {
      kind: 'pattern',
      sizeBytes: BigInt(sizeBytes),
      extentBytes: BigInt(EXTENT_BYTES),
      strideBytes: BigInt(strideBytes),
    };
  },
  (snapshotId) => ({ sizeBytes: BigInt(patternOf(snapshotId).sizeBytes), sequence: 1n }),
);
