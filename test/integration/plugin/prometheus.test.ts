/**
 * A real Prometheus scrapes the plugin, with an XFS pool and an embedded one: what its query API shows is compared with
 * docs/metrics.md, with the dashboard, and with what was done. test/guest/plugin.test.ts has the figures of a thin pool.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { checkoutText } from '../../support/checkout-text.js';
import { MIB } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { NO_PROMETHEUS, prometheusProgram } from '../../support/prometheus.js';
import { PrometheusServer } from '../../support/prometheus-server.js';
import { type Done, documentedSeries, doEverything, metricsAddressOf } from '../../support/scraped-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../../support/workspace.js';

const program = prometheusProgram('prometheus');
const skip = skipUnlessRoot || (program === null ? NO_PROMETHEUS : false);

test('Prometheus shows every documented metric of a running plugin', { skip }, async (t) => {
  assert.ok(program !== null);
  const workspace = new Workspace('prometheus');
  t.after(() => workspace.dispose());
  const plugin = await Plugin.start(workspace, {
    pools: `main=${makePoolFileSystem(workspace, 'xfs')},image=${workspace.path('image')}`,
    env: { BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0', BLOCKDELTA_EMBEDDED_POOL_ALLOCATE: 'sparse' },
  });
  try {
    const target = metricsAddressOf(plugin.log);
    const prometheus = await PrometheusServer.start(program, workspace.directory, target);
    try {
      const done = await doEverything(workspace, plugin);
      await assertDocumented(prometheus);
      await assertFigures(prometheus, done);
      await assertQueriesValid(prometheus);
      await assertWellFormed(`http://${target}/metrics`);
    } finally {
      await prometheus.stop();
    }
  } finally {
    await plugin.kill();
  }
});

async function assertDocumented(prometheus: PrometheusServer): Promise<void> {
  for (const name of documentedSeries().filter((name) => !/^blockdelta_pool_thin_/.test(name))) {
    await prometheus.queryUntil(name, (found) => found.length > 0);
  }
}

async function assertFigures(prometheus: PrometheusServer, done: Done): Promise<void> {
  const shows = async (expression: string, value: number): Promise<void> => {
    await prometheus.queryUntil(expression, ([first]) => first?.value === value);
  };
  await shows('min(up)', 1);
  await shows('min(blockdelta_pool_up)', 1);
  await shows('min(blockdelta_catalogue_up)', 1);
  await shows('blockdelta_rpcs_total{method="CreateVolume",code="OK"}', 1);
  await shows('blockdelta_rpcs_total{method="NodeGetVolumeStats",code="NOT_FOUND"}', 1);
  await shows('blockdelta_rpc_duration_seconds_count{method="CreateSnapshot"}', 2);
  await shows('blockdelta_snapshot_stall_seconds_count{pool="main"}', 2);
  await shows('sum(blockdelta_streams_total)', 3);
  await shows('sum(blockdelta_streams_open)', 0);
  await shows('sum(blockdelta_scan_entries_total)', done.entries);
  await shows('sum(blockdelta_scans_resumed_total)', 1);
  await shows('blockdelta_pool_volumes{pool="main"}', 1);
  await shows('blockdelta_pool_snapshots{pool="main"}', 2);
  const volume = `blockdelta_volume_size_bytes{volume="${done.volumeId}"}`;
  const named = `${volume} * on (pool, volume) group_left (name) blockdelta_volume_info`;
  await shows(volume, done.sizeBytes);
  assert.equal((await prometheus.query(named))[0]?.metric['name'], done.name);
  await shows(`blockdelta_volume_snapshots{volume="${done.volumeId}"}`, 2);
  const [used] = await prometheus.query(`blockdelta_volume_used_bytes{volume="${done.volumeId}"}`);
  assert.ok((used?.value ?? 0) > 0 && (used?.value ?? 0) <= done.sizeBytes);
  const [available] = await prometheus.query('blockdelta_pool_available_bytes{pool="main"}');
  // The free space of a file system changes a little by itself.
  assert.ok(Math.abs((available?.value ?? 0) - done.capacityBytes) < 64 * MIB);
}

/** By promtool, which also knows the conventions for names and labels. */
async function assertWellFormed(url: string): Promise<void> {
  const text = await (await fetch(url)).text();
  const promtool = prometheusProgram('promtool');
  assert.ok(promtool !== null, NO_PROMETHEUS);
  const checked = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' });
  assert.equal(checked.status, 0, checked.stdout + checked.stderr);
}

/** Every query of the dashboard is one that Prometheus can evaluate; it starts only with rules that are. */
async function assertQueriesValid(prometheus: PrometheusServer): Promise<void> {
  const text = checkoutText('deploy/helm/blockdelta/files/dashboard.json');
  const { panels } = JSON.parse(text) as { panels: { targets?: { expr: string }[] }[] };
  const expressions = panels.flatMap(({ targets }) => targets ?? []).map(({ expr }) => expr);
  assert.ok(expressions.length > 40);
  for (const expression of expressions) {
    await prometheus.query(
      expression.replaceAll('$__rate_interval', '1m').replaceAll('$instance', '.*').replaceAll('$pool', '.*'),
    );
  }
}
