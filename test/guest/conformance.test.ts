/** The museum of lost blocks and increments under load on a thin pool, at night; ../conformance has the pools of files. */
import { after, before } from 'node:test';
import { soakChecks } from '../../src/tools/conformance/checks/soak.js';
import { assertConforms } from '../support/conformance-run.js';
import { isNightly } from '../support/nightly.js';
import { PluginHere } from '../support/plugin-here.js';
import { RunningPluginBy } from '../support/running-plugin.js';
import { isGuest, nightlyTest } from './guest.js';

/** Of one check, and of one increment, on an emulated processor. */
const TIMEOUT_MS = 600_000;

const running = new RunningPluginBy(PluginHere.start);
before(async () => {
  if (isGuest && isNightly) await running.setUp('conformance', { pools: { main: 'thin' } });
});
after(() => running.tearDown());

nightlyTest('no loss of the museum happens on a thin pool', () =>
  assertConforms(running, { access: ['block'], only: ['loss.*'], volumeSizeBytes: 8 << 20, timeoutMs: TIMEOUT_MS }, []),
);

for (const fileSystem of ['', 'ext4']) {
  const access = fileSystem === '' ? 'block' : 'mount';
  nightlyTest(
    `increments of ${fileSystem || 'raw block'} volumes that are written to are complete on a thin pool`,
    () =>
      assertConforms(
        running,
        {
          access: [access],
          only: [`soak.${access}`],
          mountFileSystem: fileSystem,
          volumeSizeBytes: 32 << 20,
          timeoutMs: TIMEOUT_MS,
        },
        [],
        soakChecks(30),
      ),
  );
}
