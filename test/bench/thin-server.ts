/** A server whose snapshots are the thin devices of one metadata file; its path is the one option. */
import { loadAddon } from '../../src/native/addon.js';
import { serveScans } from './scan-server.js';
import { givenOption } from './server-process.js';
import { BASE_DEVICE, VOLUME_BYTES } from './thin-cases.js';
import { thinSource } from './thin-scan.js';

const source = thinSource(loadAddon(), givenOption(1));

await serveScans(
  async () => source,
  (snapshotId) => ({
    sizeBytes: VOLUME_BYTES,
    sequence: snapshotId === String(BASE_DEVICE) ? 1n : 2n,
  }),
);
