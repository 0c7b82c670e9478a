/** A server whose snapshots are the thin devices of one metadata file; its path is the one option. */

import { serveScans } from '../../src/bench/streams/scan-server.js';
import { givenArgument } from '../../src/bench/streams/server-process.js';
import { loadAddon } from '../../src/native/addon.js';
import { BASE_DEVICE, VOLUME_BYTES } from './thin-cases.js';
import { thinSource } from './thin-scan.js';

const source = thinSource(loadAddon(), givenArgument(1));

await serveScans(
  async () => source,
  (snapshotId) => ({
    sizeBytes: VOLUME_BYTES,
    sequence: snapshotId === String(BASE_DEVICE) ? 1n : 2n,
  }),
);
