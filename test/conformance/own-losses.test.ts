/** The museum of lost blocks against the plugin: no loss of another product happens here. In a nightly run with larger volumes. */
import { assertConforms } from '../support/conformance-run.js';
import { isNightly } from '../support/nightly.js';
import { runPlugin, test } from '../support/running-plugin.js';

const FILE_SYSTEMS = ['xfs', 'btrfs'] as const;
const running = runPlugin('conformance-losses', {
  pools: { xfs: 'xfs', btrfs: 'btrfs' },
  poolSizeMiB: 2048,
});
/** The machine may be slow and busy: only what hangs takes so long. */
const TIMEOUT_MS = 600_000;
const volumeSizeBytes = (isNightly ? 64 : 8) << 20;

for (const pool of FILE_SYSTEMS) {
  test(`no loss of the museum happens on a pool on ${pool}`, () =>
    assertConforms(
      running,
      { access: ['block'], only: ['loss.*'], parameters: { pool }, volumeSizeBytes, timeoutMs: TIMEOUT_MS },
      [],
    ));
}
