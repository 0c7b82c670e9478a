/**
 * The plugin's own path from a scan to the socket (server, service, scanner, workers, addon, stream writer) over
 * snapshots that are in no catalogue and in no pool.
 */

import { nodeUri } from '../../../src/base/csi/routed-calls.js';
import { createLogger } from '../../../src/base/logger.js';
import { parseListen } from '../../../src/base/settings/tls.js';
import type { Backend, SnapshotChanges } from '../../../src/driver/backends/backend.js';
import { directScan } from '../../../src/driver/backends/snapshot-scan.js';
import type { AsyncCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import type { SnapshotRecord } from '../../../src/driver/catalogue/records.js';
import { createSnapshotMetadataService } from '../../../src/driver/metadata/snapshot-metadata.js';
import type { ScanSource } from '../../../src/driver/native/addon.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import { ScanThreads } from '../../../src/driver/native/scan-threads.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import type { RoutedListen } from '../../../src/server/connections/connections.js';
import { createCsiServer } from '../../../src/server/server.js';
import { givenEndpoint, reportToParent } from './server-process.js';

/** As many as the plugin has unless it is told otherwise. */
const SCAN_THREADS = 2;
const SHUTDOWN_GRACE_MS = 1000;
/** The variable that sends every message of a stream through grpc-js. */
export const PLAIN_STREAMS = 'BENCH_PLAIN_STREAMS';

/** What a snapshot is to the service; all are of one volume. */
export interface BenchSnapshot {
  sizeBytes: bigint;
  /** Its position among the volume's snapshots. */
  sequence: bigint;
}

/** Serves SnapshotMetadata on the endpoint that the parent gave, until the parent ends. With PLAIN_STREAMS, writes no frames. */
export async function serveScans(
  sourceOf: (snapshotId: string, baseId: string | null) => Promise<ScanSource>,
  snapshotOf: (snapshotId: string) => BenchSnapshot,
): Promise<void> {
  const endpoint = givenEndpoint();
  const filler = new NativePool(SCAN_THREADS);
  await filler.warm();
  const changes: Pick<SnapshotChanges, 'scan' | 'neededFor'> = {
    neededFor: () => null,
    scan: async (targetId, baseId) =>
      directScan(await sourceOf(targetId, baseId), { targetBytes: snapshotOf(targetId).sizeBytes }),
  };
  const catalogue: Pick<AsyncCatalogue, 'snapshotById'> = {
    snapshotById: async (snapshotId) => recordOf(snapshotId, snapshotOf(snapshotId)),
  };
  const server = createCsiServer({
    services: [
      createSnapshotMetadataService({
        catalogue: catalogue as AsyncCatalogue,
        locks: new OperationLocks(),
        scanThreads: new ScanThreads(filler, SCAN_THREADS),
        backendOf: () => ({ changes }) as Backend,
      }),
    ],
    config: {
      socketPath: endpoint.slice('unix://'.length),
      socketMode: 0o600,
      shutdownGraceMs: SHUTDOWN_GRACE_MS,
      maxConnections: 128,
      maxCalls: 1000,
      maxStreams: 64,
      streamStallMs: 60_000,
    },
    logger: createLogger('warn'),
    routed: routedBy(process.env),
    plainStreams: process.env[PLAIN_STREAMS] !== undefined,
  });
  await server.start();
  reportToParent();
}

/** Also listens for a router, with the settings of a node. */
function routedBy(env: NodeJS.ProcessEnv): RoutedListen | null {
  const settings = parseListen((name) => env[name] || undefined, 'blockdelta-router');
  if (settings === null) return null;
  const nodeId = env['BLOCKDELTA_NODE_ID'] ?? 'bench';
  return { settings, nodeUri: nodeUri('blockdelta.csi', nodeId) };
}

function recordOf(snapshotId: string, { sizeBytes, sequence }: BenchSnapshot): SnapshotRecord {
  return {
    snapshotId,
    name: snapshotId,
    volumeId: 'vol-bench',
    pool: 'default',
    sizeBytes,
    state: 'ready',
    groupSnapshotId: null,
    sequence,
    creationTimeNs: 1n,
    parameters: {},
    pristine: false,
    awaitsCopy: false,
  };
}
