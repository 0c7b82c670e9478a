/** A server whose snapshots are generated instead of read from a pool: see pattern.ts. */
import { EXTENT_BYTES, type PatternSource, patternOf } from './pattern.js';
import { serveScans } from './scan-server.js';

await serveScans(
  async (snapshotId) => {
    const { sizeBytes, strideBytes } = patternOf(snapshotId);
    const source: PatternSource = {
      kind: 'pattern',
      sizeBytes: BigInt(sizeBytes),
      extentBytes: BigInt(EXTENT_BYTES),
      strideBytes: BigInt(strideBytes),
    };
    // The threads of this process know the kind: pattern-addon.ts.
    return source as never;
  },
  (snapshotId) => ({ sizeBytes: BigInt(patternOf(snapshotId).sizeBytes), sequence: 1n }),
);
