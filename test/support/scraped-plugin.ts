/** A little of everything that is counted, done to a plugin, and where and under which names its metrics are. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { checkoutText } from './checkout-text.js';
import { mountCapability } from './csi-client.js';
import { MIB, Orchestrator } from './orchestrator.js';
import type { Plugin } from './plugin.js';
import type { Workspace } from './workspace.js';

export interface Done {
  volumeId: string;
  name: string;
  sizeBytes: number;
  entries: number;
  capacityBytes: number;
}

/** A mounted volume, snapshots while it is written to, lists, one of them resumed, and a call that fails. */
export async function doEverything(workspace: Workspace, plugin: Pick<Plugin, 'client'>): Promise<Done> {
  const { client } = plugin;
  const orchestrator = new Orchestrator(workspace, () => client);
  const volume = await orchestrator.create('pvc-1', {
    capability: mountCapability('ext4'),
    sizeBytes: 64 * MIB,
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
    volumeId: volume.id,
    name: 'pvc-1',
    sizeBytes: volume.sizeBytes,
    entries: whole.ranges.length + changed.ranges.length + rest.ranges.length,
    capacityBytes: Number(capacity['available_capacity']),
  };
}

/** One series of each metric of a plugin in docs/metrics.md. */
export function documentedSeries(): string[] {
  const text = checkoutText('docs/metrics.md');
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)];
  assert.ok(rows.length > 50);
  // Only a router, a listener for routers, a plugin with a guardian of another container, a volume with a copy and a run of
  // `blockdelta backup --all` have these.
  const ofOthers = /^blockdelta_(router|certificate|guardian|volume_newest_copy|backup)_/;
  const ofPlugins = rows.filter(([, name = '']) => !ofOthers.test(name));
  return ofPlugins.map(([, name = '', type = '']) => (type === 'histogram' ? `${name}_count` : name));
}

/** host:port of a plugin's metrics, by the line that it logs at its start. */
export function metricsAddressOf(log: string): string {
  const [, address] = /"metrics":"http:\/\/([^/"]+)\/metrics"/.exec(log) ?? [];
  assert.ok(address !== undefined, `no address in: ${log}`);
  return address;
}
