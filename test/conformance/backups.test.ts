/** Backups of drivers that share nothing but the CSI definition with the plugin. */
import assert from 'node:assert/strict';
import { CsiClient } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { MIB, Orchestrator } from '../support/orchestrator.js';
import { seededRandom } from '../support/random.js';
import { test } from '../support/running-plugin.js';
import { RAW, VolumeHistory } from '../support/volume-history.js';
import { Workspace } from '../support/workspace.js';
import type { Deviation } from './fake/defect.js';
import { FakeDriver } from './fake/driver.js';

const DRIVERS: Readonly<Record<string, Deviation>> = {
  'ranges of any length': {},
  'blocks of one length, entries clipped': { metadataType: 'FIXED_LENGTH', clipped: true },
  'no GetSnapshot': { without: ['GET_SNAPSHOT'] },
};

for (const [title, options] of Object.entries(DRIVERS)) {
  test(`backups of a driver with ${title} hold what the volume held`, async (t) => {
    const workspace = new Workspace('backups');
    const driver = await FakeDriver.start(workspace.path('driver'), options);
    const client = new CsiClient(`unix://${driver.socketPath}`);
    t.after(async () => {
      client.close();
      await driver.stop();
      workspace.dispose();
    });
    const history = await VolumeHistory.begin({
      orchestrator: new Orchestrator(workspace, () => client),
      socketPath: driver.socketPath,
      random: seededRandom(`backups-${title}`),
      directory: workspace.path('history'),
      use: RAW,
      name: 'foreign',
      sizeBytes: 4 * MIB,
      growthBytes: MIB,
    });
    await history.live(isNightly ? 30 : 12);
    console.log(`# ${history}`);
    assert.ok(history.incrementalBackups > 0, 'some backups are incremental');
    await history.check();
    await history.restore(4);
    await history.end();
  });
}
