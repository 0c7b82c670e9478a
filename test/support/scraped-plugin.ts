/**
 * A plugin under a real Prometheus: does a little of everything that is counted, and compares what the query
 * API shows with docs/metrics.md, with the rules and the dashboard, and with what was done.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { packagePath } from '../../src/base/package-root.js';
import { mountCapability } from './csi-client.js';
import { MIB, Orchestrator } from './orchestrator.js';
import { Plugin } from './plugin.js';
import { NO_PROMETHEUS, prometheusProgram } from './prometheus.js';
import { PrometheusServer } from './prometheus-server.js';
import type { Workspace } from './workspace.js';

export interface ScrapedPlugin {
  workspace: Workspace;
  /** Path of the program. */
  prometheus: string;
  /** As BLOCKDELTA_POOLS; snapshots are taken in the pool `main`. */
  pools: string;
  /** host:port of a second process with metrics that these pools do not have. */
  other: string;
}

export async function assertScraped({
  workspace,
  prometheus: program,
  pools,
  other,
}: ScrapedPlugin): Promise<void> {
  const env = {
    BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0',
    BLOCKDELTA_EMBEDDED_POOL_ALLOCATE: 'sparse',
  };
  const plugin = await Plugin.start(workspace, { pools, env });
  try {
    const target = metricsAddressOf(plugin.log);
    const prometheus = await PrometheusServer.start(program, workspace.directory, {
      blockdelta: target,
      other,
    });
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
}

interface Done {
  volumeId: string;
  name: string;
  sizeBytes: number;
  entries: number;
  capacityBytes: number;
}

/** A mounted volume, snapshots while it is written to, lists, one of them resumed, and a call that fails. */
export async function doEverything(
  workspace: Workspace,
  plugin: Pick<Plugin, 'client'>,
): Promise<Done> {
  const { client } = plugin;
  const orchestrator = new Orchestrator(
    { path: (...names) => workspace.path(...names) },
    () => client,
  );
  const volume = await orchestrator.create('pvc-1', {
    ...{ capability: mountCapability('ext4'), sizeBytes: 64 * MIB },
    parameters: { pool: 'main' },
  });
  const target = await orchestrator.bringUp(volume);
  const base = await orchestrator.snapshot(volume, 'snapshot-1');
  await writeFile(join(target, 'file'), Buffer.alloc(MIB, 7));
  const later = await orchestrator.snapshot(volume, 'snapshot-2');
  const whole = await client.allocated(later);
  const changed = await client.delta(base, later);
  const rest = await client.delta(base, later, { starting_offset: 4096 });
  const absent = { volume_id: volume.id, volume_path: workspace.path('nowhere') };
  await assert.rejects(client.node.NodeGetVolumeStats(absent));
  const capacity = await client.controller.GetCapacity({ parameters: { pool: 'main' } });
  await orchestrator.takeDown(volume);
  return {
    ...{ volumeId: volume.id, name: 'pvc-1', sizeBytes: volume.sizeBytes },
    entries: whole.ranges.length + changed.ranges.length + rest.ranges.length,
    capacityBytes: Number(capacity['available_capacity']),
  };
}

/** One series of each metric in docs/metrics.md. */
export function documentedSeries(): string[] {
  const text = readFileSync(packagePath('docs/metrics.md'), 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)];
  assert.ok(rows.length > 50);
  return rows.map(([, name = '', type = '']) => (type === 'histogram' ? `${name}_count` : name));
}

/** host:port of a plugin's metrics, by the line that it logs at its start. */
export function metricsAddressOf(log: string): string {
  const [, address] = /"metrics":"http:\/\/([^/"]+)\/metrics"/.exec(log) ?? [];
  assert.ok(address !== undefined, `no address in: ${log}`);
  return address;
}

async function assertDocumented(prometheus: PrometheusServer): Promise<void> {
  for (const name of documentedSeries()) {
    const job = name.startsWith('blockdelta_pool_thin_') ? 'other' : 'blockdelta';
    await prometheus.queryUntil(`${name}{job="${job}"}`, (found) => found.length > 0);
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

/** Every expression of the rules and the dashboard is one that Prometheus can evaluate. */
async function assertQueriesValid(prometheus: PrometheusServer): Promise<void> {
  const read = (name: string) => readFileSync(packagePath(`deploy/prometheus/${name}`), 'utf8');
  const rules = parse(read('alerts.yaml')) as { groups: { rules: { expr: string }[] }[] };
  const dashboard = JSON.parse(read('dashboard.json')) as {
    panels: { targets?: { expr: string }[] }[];
  };
  const expressions = [
    ...rules.groups.flatMap((group) => group.rules),
    ...dashboard.panels.flatMap(({ targets }) => targets ?? []),
  ].map(({ expr }) => expr);
  assert.ok(expressions.length > 60);
  for (const expression of expressions) {
    await prometheus.query(
      expression
        .replaceAll('$__rate_interval', '1m')
        .replaceAll('$instance', '.*')
        .replaceAll('$pool', '.*'),
    );
  }
}
