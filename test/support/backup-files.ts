/** Manifests for tests of the repository, without images behind them. */
import type { Manifest } from '../../src/tools/backup/manifest.js';

const DIGEST = 'ab'.repeat(32);

/** @param day of the month in which the snapshot was taken */
export function testManifest(id: string, day: number, base: Manifest['base'] = null): Manifest {
  const time = new Date(Date.UTC(2026, 0, day)).toISOString();
  const stem = `${time.replaceAll(/[-:]/g, '')}-${id}`;
  return {
    tool: 'blockdelta 0.1.0',
    driver: { name: 'a driver', version: '1' },
    node: 'n1',
    volume: { id: 'vol-1', sizeBytes: 1n << 60n, sectorBytes: 512 },
    snapshot: { id, creationTime: time },
    base,
    method: base === null ? 'full' : 'delta',
    reason: null,
    skipped: [],
    ranges: { count: 1, bytes: 4096n, listedBytes: 4096n, grainBytes: 4096n, sha256: DIGEST },
    image: { file: `${stem}.qcow2`, bytes: 5n, segmentBytes: 16 << 20, sha256: [DIGEST], compression: null },
    startedAt: time,
    completedAt: time,
  };
}
