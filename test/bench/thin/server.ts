/** A server whose snapshots are the thin devices of one metadata file. Its arguments: the metadata and the volumes' size. */
import { loadAddon } from '../../../src/driver/native/addon.js';
import { serveScans } from '../streams/scan-server.js';
import { givenArgument } from '../streams/server-process.js';
import { BASE_DEVICE } from './metadata.js';
import { thinSource } from './scan.js';

const volumeBytes = BigInt(givenArgument(2));
const source = thinSource(loadAddon(), { path: givenArgument(1), volumeBytes });

await serveScans(
  async () => source,
  (snapshotId) => ({
    sizeBytes: volumeBytes,
    sequence: snapshotId === String(BASE_DEVICE) ? 1n : 2n,
  }),
);
