/** The metrics of the real plugin with a real thin pool. */
import assert from 'node:assert/strict';
import { scrape } from '../support/metrics-text.js';
import { Plugin } from '../support/plugin.js';
import { documentedSeries, doEverything, metricsAddressOf } from '../support/scraped-plugin.js';
import { Workspace } from '../support/workspace.js';
import { guestTest } from './guest.js';

guestTest('the plugin shows every documented metric of a thin pool, and its state', async (t) => {
  const workspace = new Workspace('metrics');
  t.after(() => workspace.dispose());
  const env = {
    BLOCKDELTA_SCAN_THREADS: '1',
    BLOCKDELTA_DEVICE_THREADS: '2',
    BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0',
  };
  const pools = `main=thin:${workspace.path('thin')}`;
  const plugin = await Plugin.start(workspace, { pools, env });
  try {
    const done = await doEverything(workspace, plugin);
    const found = await scrape(`http://${metricsAddressOf(plugin.log)}/metrics`);
    for (const series of documentedSeries())
      assert.notEqual(found.value(series), undefined, series);
    const pool = (name: string): number => found.value(`blockdelta_pool_${name}`) ?? -1;
    assert.equal(pool('up'), 1);
    assert.equal(pool('thin_needs_check'), 0);
    assert.equal(found.value('blockdelta_pool_thin_mode', { mode: 'rw' }), 1);
    assert.equal(pool('thin_mode'), 1);
    assert.ok(pool('thin_data_used_bytes') > 0);
    assert.ok(pool('thin_data_used_bytes') < pool('thin_data_bytes'));
    assert.ok(pool('thin_metadata_used_bytes') > 0);
    assert.ok(pool('thin_metadata_used_bytes') < pool('thin_metadata_bytes'));
    assert.equal(pool('snapshots'), 2);
    assert.equal(found.value('blockdelta_snapshot_stall_seconds_count'), 2);
    assert.equal(found.value('blockdelta_scan_entries_total'), done.entries);
    assert.ok((found.value('blockdelta_worker_threads', { set: 'thin-main' }) ?? 0) > 0);
  } finally {
    await plugin.kill();
  }
});
