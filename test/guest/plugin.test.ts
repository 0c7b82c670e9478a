/**
 * The plugin in the guest: its metrics of a thin pool, a history of backups from one, what the commands say of it, and
 * features that need all capabilities and cgroup v2.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmdirSync, statfsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { after, before } from 'node:test';
import { blockCapability, type Message, mountCapability } from '../support/csi-client.js';
import { scrape } from '../support/metrics-text.js';
import { isNightly } from '../support/nightly.js';
import { createRequest, MIB } from '../support/orchestrator.js';
import { PluginHere } from '../support/plugin-here.js';
import { limitsOf, makePodCgroup } from '../support/pod-cgroup.js';
import { seededRandom } from '../support/random.js';
import { RunningPluginBy } from '../support/running-plugin.js';
import { documentedSeries, doEverything, metricsAddressOf } from '../support/scraped-plugin.js';
import { proveHistory, RAW } from '../support/volume-history.js';
import { guestTest, isGuest } from './guest.js';
import { testInspection } from './inspection.js';

const POOL = 'main';
const FILES = 'files';
const RETAINED = isNightly ? 3 : 1;

const running = new RunningPluginBy(PluginHere.start);
before(async () => {
  if (!isGuest) return;
  // Every thread takes a second to start on an emulated processor.
  const env = {
    BLOCKDELTA_SCAN_THREADS: '1',
    BLOCKDELTA_DEVICE_THREADS: '2',
    BLOCKDELTA_METRICS_ADDRESS: '127.0.0.1:0',
    BLOCKDELTA_RETAINED_BASES_COUNT: String(RETAINED),
  };
  await running.setUp('guest', { pools: { [POOL]: 'thin', [FILES]: 'xfs' }, env });
});
after(() => running.tearDown());

async function write(path: string, bytes: number): Promise<void> {
  const handle = await open(path, 'w');
  try {
    await handle.writeFile(Buffer.alloc(bytes, 7));
    await handle.sync();
  } finally {
    await handle.close();
  }
}

// First: it counts what the plugin has done.
guestTest('the plugin shows every documented metric of a thin pool, and its state', async () => {
  const { workspace, plugin, client, orchestrator } = running;
  const done = await doEverything(workspace, plugin);
  const found = await scrape(`http://${metricsAddressOf(plugin.log)}/metrics`);
  for (const series of documentedSeries()) assert.notEqual(found.value(series), undefined, series);
  const pool = (name: string): number =>
    found.value(`blockdelta_pool_${name}`, { pool: POOL }) ?? -1;
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
  for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
  await client.controller.DeleteVolume({ volume_id: done.volumeId });
});

guestTest('a published ext4 volume grows while it is written to', async () => {
  const { orchestrator, client } = running;
  const volume = await orchestrator.create('grows', {
    capability: mountCapability('ext4'),
    sizeBytes: 32 * MIB,
    parameters: { pool: FILES },
  });
  const target = await orchestrator.bringUp(volume);
  let enough = false;
  let written = 0;
  const writer = (async () => {
    for (; !enough && written < 20; written += 1) await write(join(target, `${written}`), MIB);
  })();
  const range = { required_bytes: String(1024 * MIB) };
  const expanded = await client.controller.ControllerExpandVolume({
    volume_id: volume.id,
    capacity_range: range,
    volume_capability: volume.capability,
  });
  assert.equal(expanded['node_expansion_required'], true);
  assert.equal(Number(expanded['capacity_bytes']), 1024 * MIB);
  const request = { volume_id: volume.id, volume_path: target, capacity_range: range };
  await client.node.NodeExpandVolume(request);
  enough = true;
  await writer;
  const { blocks, bsize } = statfsSync(target);
  assert.ok(blocks * bsize > 900 * MIB, `${target} has ${blocks} blocks of ${bsize} bytes`);
  await write(join(target, 'larger-than-before'), 40 * MIB);
  // NE3: nothing is left to do.
  await client.node.NodeExpandVolume(request);
  await orchestrator.takeDown(volume);
  execFileSync('e2fsck', ['-fn', running.poolPath(FILES, 'volumes', volume.id)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await orchestrator.delete(volume);
});

async function publishForPod(name: string, podUid: string): Promise<Message> {
  const { orchestrator, client } = running;
  const { volume } = await client.controller.CreateVolume({
    ...createRequest(name),
    parameters: { pool: FILES },
    mutable_parameters: { readBytesPerSecond: '1048576', writeOperationsPerSecond: '500' },
  });
  const id = String(volume.volume_id);
  const staging_target_path = running.workspace.path('csi', id, 'staging');
  const target_path = orchestrator.target(id, 'pod');
  mkdirSync(staging_target_path, { recursive: true });
  mkdirSync(dirname(target_path), { recursive: true });
  const request = {
    volume_id: id,
    staging_target_path,
    volume_capability: blockCapability(),
    volume_context: { ...volume.volume_context, 'csi.storage.k8s.io/pod.uid': podUid },
  };
  await client.node.NodeStageVolume(request);
  await client.node.NodePublishVolume({ ...request, target_path });
  return { id, staging_target_path, target_path };
}

async function checkLimits(name: string, podUid: string, cgroup: string): Promise<void> {
  const { client } = running;
  const { id, staging_target_path, target_path } = await publishForPod(name, podUid);
  assert.equal(
    limitsOf(cgroup, target_path),
    'rbps=1048576 wbps=max riops=max wiops=500',
    `the limits of volume ${id} in ${cgroup}`,
  );
  await client.controller.ControllerModifyVolume({
    volume_id: id,
    mutable_parameters: { readBytesPerSecond: 'max', writeBytesPerSecond: '2097152' },
  });
  assert.match(limitsOf(cgroup, target_path), /^rbps=max wbps=2097152 riops=max wiops=(500|max)$/);
  const device = execFileSync('losetup', ['-nO', 'NAME', '-j', volumeFile(id)])
    .toString()
    .trim();
  await client.node.NodeUnpublishVolume({ volume_id: id, target_path });
  assert.equal(limitsOf(cgroup, device), '', 'the limits outlive the publication');
  await client.node.NodeUnstageVolume({ volume_id: id, staging_target_path });
  await client.controller.DeleteVolume({ volume_id: id });
}

const volumeFile = (volumeId: string): string => running.poolPath(FILES, 'volumes', volumeId);

guestTest('a volume limits the pod that it is published to, as systemd names pods', async () => {
  const podUid = '0b7c1f5e-3a52-4c1f-9d0e-6a4f2d9b1c01';
  const slice = 'kubepods-burstable';
  const cgroup = makePodCgroup(
    'kubepods.slice',
    `${slice}.slice`,
    `${slice}-pod${podUid.replaceAll('-', '_')}.slice`,
  );
  await checkLimits('limits-systemd', podUid, cgroup);
  rmdirSync(cgroup);
});

guestTest('a volume limits the pod that it is published to, as cgroupfs names pods', async () => {
  const podUid = '5d1e9c44-8f0b-4a7e-b6c3-2f7a90e4d502';
  const cgroup = makePodCgroup('kubepods', `pod${podUid}`);
  await checkLimits('limits-cgroupfs', podUid, cgroup);
  rmdirSync(cgroup);
});

guestTest(
  'the processor has no protection keys, which a signal would reset permanently',
  async () => {
    const flags =
      /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' ') ?? [];
    assert.ok(flags.includes('fpu'), 'the flags were found');
    assert.ok(!flags.includes('pku') || flags.includes('xsave'), 'WebAssembly would crash in time');
  },
);

/** 30 snapshots in a nightly run; each program starts slowly in the guest. */
guestTest(
  'every backup of a thin volume holds what the volume held, over many snapshots',
  async () => {
    const options = {
      orchestrator: running.orchestrator,
      socketPath: running.plugin.endpoint.slice('unix://'.length),
      random: seededRandom('thin-backup-history-raw'),
      directory: running.workspace.path('history'),
      use: RAW,
      name: 'raw',
      sizeBytes: 16 * MIB,
      growthBytes: 4 * MIB,
    };
    await proveHistory(options, RETAINED, isNightly ? [11, 8, 4] : [1, 1, 1]);
  },
);

// Last: it restarts the plugin.
testInspection(running, POOL);
