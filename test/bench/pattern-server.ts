/**
 * The plugin's own way from a scan to the socket - server, service, scanner, workers, addon, stream
 * writer - over a backend whose snapshots are generated instead of read from a pool.
 */
import type { Backend } from '../../src/backends/backend.js';
import { createLogger } from '../../src/logger.js';
import type { ScanSource } from '../../src/native/addon.js';
import { NativePool } from '../../src/native/pool.js';
import { createPluginServer } from '../../src/server.js';
import { createSnapshotMetadataService } from '../../src/services/snapshot-metadata.js';
import { OperationLocks } from '../../src/volumes/operation-locks.js';
import type { AsyncCatalogue, SnapshotRecord } from '../../src/volumes/records.js';
import { EXTENT_BYTES, patternBytes, patternEntries, STRIDE_BYTES } from './pattern.js';
import { givenEndpoint, reportToParent } from './server-process.js';

/** As many as the plugin has unless it is told otherwise. */
const SCAN_THREADS = 2;
const SHUTDOWN_GRACE_MS = 1000;

const patternBackend: Pick<Backend, 'scanSource'> = {
  scanSource: async (snapshotId): Promise<ScanSource> => ({
    kind: 'pattern',
    sizeBytes: BigInt(patternBytes(patternEntries(snapshotId))),
    extentBytes: BigInt(EXTENT_BYTES),
    strideBytes: BigInt(STRIDE_BYTES),
  }),
};

const patternCatalogue: Pick<AsyncCatalogue, 'snapshotById'> = {
  snapshotById: async (snapshotId): Promise<SnapshotRecord> => ({
    snapshotId,
    name: snapshotId,
    volumeId: 'vol-bench',
    pool: 'default',
    sizeBytes: BigInt(patternBytes(patternEntries(snapshotId))),
    state: 'ready',
    groupSnapshotId: null,
    sequence: 1n,
    creationTimeNs: 1n,
    parameters: {},
    fresh: false,
  }),
};

const endpoint = givenEndpoint();
const filler = new NativePool(SCAN_THREADS);
await filler.warm();
const server = createPluginServer({
  services: [
    createSnapshotMetadataService({
      catalogue: patternCatalogue as AsyncCatalogue,
      locks: new OperationLocks(),
      filler,
      backendOf: () => patternBackend as Backend,
    }),
  ],
  config: {
    endpoint,
    socketPath: endpoint.slice('unix://'.length),
    socketMode: 0o600,
    shutdownGraceMs: SHUTDOWN_GRACE_MS,
  },
  logger: createLogger('warn'),
});
await server.start();
reportToParent();
