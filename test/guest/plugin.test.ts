/**
 * The plugin in the guest: its metrics of a thin pool, the life of volumes whose device is a device-mapper device, a
 * history of backups from one, what the commands say of it, and features that need all capabilities and cgroup v2.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync, rmdirSync, statfsSync, statSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Command } from 'commander';
import { majorOf, minorOf } from '../../src/base/system/mountinfo.js';
import { addDoctorCommand } from '../../src/cli/inspection/doctor-command.js';
import { addGcCommand } from '../../src/cli/inspection/gc-command.js';
import { addPoolsCommand, addSnapshotsCommand, addVolumesCommand } from '../../src/cli/inspection/list-commands.js';
import { ledgerContents } from '../../src/driver/backends/thin/ledger/ledger-contents.js';
import { PoolNames } from '../../src/driver/backends/thin/pool/pool-names.js';
import { loadAddon } from '../../src/driver/native/addon.js';
import { proveBackups, RAW } from '../support/backed-up-volume.js';
import { type Message, mountCapability } from '../support/csi-client.js';
import { Disturbance } from '../support/disturbance.js';
import { freeze, isFrozen } from '../support/freeze.js';
import { attachLoop } from '../support/loops.js';
import { type MetricsText, scrape } from '../support/metrics-text.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { PluginHere } from '../support/plugin-here.js';
import { limitsOf, makePodCgroup } from '../support/pod-cgroup.js';
import { seededRandom } from '../support/random.js';
import { refused } from '../support/refusal.js';
import { RunningPluginBy } from '../support/running-plugin.js';
import { documentedSeries, doEverything, metricsAddressOf } from '../support/scraped-plugin.js';
import { readBlock, writeBlocks } from './dm-setup.js';
import { isGuest, nightlyTest, test } from './guest.js';

const POOL = 'main';
const FILES = 'files';
/** On disks with sectors of 4096 bytes. */
const LARGE = 'large';
const BLOCK = 65536n;
const RETAINED = 3;

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
  await running.setUp('guest', { pools: { [POOL]: 'thin', [FILES]: 'xfs', [LARGE]: 'thin on 4Kn' }, env });
});
after(() => running.tearDown());

const write = (path: string, bytes: number): Promise<void> => writeFile(path, Buffer.alloc(bytes, 7), { flush: true });

/** More than so much, when the file system is empty. */
function assertHolds(mountPoint: string, bytes: number): void {
  const { blocks, bsize } = statfsSync(mountPoint);
  assert.ok(blocks * bsize > bytes, `${mountPoint} has ${blocks} blocks of ${bsize} bytes`);
}

/** A scrape lacks the pool that does not answer within four seconds, as one on a busy machine may not. */
async function scrapeWhole(log: string): Promise<MetricsText> {
  const documented = documentedSeries();
  for (let left = 30; ; left -= 1) {
    const found = await scrape(`http://${metricsAddressOf(log)}/metrics`);
    const absent = documented.filter((series) => found.value(series) === undefined);
    const isUp = found.value('blockdelta_pool_up', { pool: POOL }) === 1;
    if (isUp && absent.length === 0) return found;
    assert.ok(left > 0, `pool up: ${isUp}; absent from each scrape: ${absent}`);
    await delay(1000);
  }
}

// First: it counts what the plugin has done.
test('the plugin shows every documented metric of a thin pool, and its state', async () => {
  const { workspace, plugin, client, orchestrator } = running;
  const done = await doEverything(workspace, plugin);
  const found = await scrapeWhole(plugin.log);
  const pool = (name: string): number => found.value(`blockdelta_pool_${name}`, { pool: POOL }) ?? -1;
  assert.equal(pool('up'), 1);
  assert.equal(pool('thin_needs_check'), 0);
  assert.equal(found.value('blockdelta_pool_thin_mode', { mode: 'rw', pool: POOL }), 1);
  assert.equal(pool('thin_mode'), 1);
  assert.ok(pool('thin_data_used_bytes') > 0);
  assert.ok(pool('thin_data_used_bytes') < pool('thin_data_bytes'));
  assert.ok(pool('thin_metadata_used_bytes') > 0);
  assert.ok(pool('thin_metadata_used_bytes') < pool('thin_metadata_bytes'));
  assert.equal(pool('snapshots'), 2);
  assert.equal(found.value('blockdelta_snapshot_stall_seconds_count'), 2);
  assert.equal(found.value('blockdelta_scan_entries_total'), done.entries);
  assert.ok((found.value('blockdelta_worker_threads', { set: 'device' }) ?? 0) > 0);
  for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
  await client.controller.DeleteVolume({ volume_id: done.volumeId });
});

test('a published ext4 volume grows while it is written to', async () => {
  const { orchestrator } = running;
  const volume = await orchestrator.create('grows', {
    capability: mountCapability('ext4'),
    sizeBytes: 32 * MIB,
    parameters: { pool: FILES },
  });
  const target = await orchestrator.bringUp(volume);
  const writer = new Disturbance((round) => write(join(target, `${round % 20}`), MIB));
  assert.equal(await orchestrator.expand(volume, 1024 * MIB), 1024 * MIB);
  await orchestrator.nodeExpand(volume);
  await writer.stop();
  assertHolds(target, 900 * MIB);
  await write(join(target, 'larger-than-before'), 40 * MIB);
  // NE3: nothing is left to do.
  await orchestrator.nodeExpand(volume);
  await orchestrator.takeDown(volume);
  execFileSync('e2fsck', ['-fn', running.poolPath(FILES, 'volumes', volume.id)], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await orchestrator.delete(volume);
});

/** The device that is mounted or bound there. */
function deviceBehind(target: string): string {
  const { dev, rdev } = statSync(target);
  const number = rdev === 0 ? dev : rdev;
  const path = `/dev/${basename(realpathSync(`/sys/dev/block/${majorOf(number)}:${minorOf(number)}`))}`;
  assert.equal(statSync(path).rdev, number, target);
  return path;
}

const POD = '5d1e9c44-8f0b-4a7e-b6c3-2f7a90e4d502';
const SLICE = 'kubepods-burstable';
const SYSTEMD_POD = `${SLICE}-pod${POD.replaceAll('-', '_')}.slice`;
for (const [manager, pool, ...cgroups] of [
  ['systemd', FILES, 'kubepods.slice', `${SLICE}.slice`, SYSTEMD_POD],
  ['cgroupfs', POOL, 'kubepods', `pod${POD}`],
] as const) {
  const register = manager === 'systemd' ? test : nightlyTest;
  register(`a volume gets its settings and limits its pod, as ${manager} names pods`, async () => {
    const { orchestrator, client } = running;
    const cgroup = makePodCgroup(...cgroups);
    const limits = { readBytesPerSecond: '1048576', writeOperationsPerSecond: '500' };
    const { volume: made } = await client.controller.CreateVolume({
      ...createRequest(`limits-${manager}`),
      parameters: { pool },
      mutable_parameters: { ...limits, readAheadKiB: '512' },
    });
    const volume = orchestrator.hold('limits', made as Message);
    await orchestrator.stage(volume);
    const device = deviceBehind(await orchestrator.publish(volume, { podUid: POD }));
    const readAhead = (): string => readFileSync(`/sys/block/${basename(device)}/queue/read_ahead_kb`, 'utf8').trim();
    assert.equal(limitsOf(cgroup, device), 'rbps=1048576 wbps=max riops=max wiops=500');
    assert.equal(readAhead(), '512');
    const others = { readBytesPerSecond: 'max', writeBytesPerSecond: '2097152' };
    await orchestrator.modify(volume, { ...others, readAheadKiB: '256' });
    const changed = /^rbps=max wbps=2097152 riops=max wiops=(500|max)$/;
    assert.match(limitsOf(cgroup, device), changed);
    assert.equal(readAhead(), '256');
    await orchestrator.unpublish(volume);
    assert.equal(limitsOf(cgroup, device), '', 'the limits outlive the publication');
    await orchestrator.takeDown(volume);
    await orchestrator.delete(volume);
    rmdirSync(cgroup);
  });
}

/** Volumes that were brought up are taken down and deleted, and their devices are gone then. */
async function remove(...volumes: HeldVolume[]): Promise<void> {
  for (const volume of volumes) {
    await running.orchestrator.takeDown(volume);
    await running.orchestrator.delete(volume);
    assert.ok(!mappedNames().includes(`blockdelta-${volume.id}`), volume.name);
  }
}

function mappedNames(): string[] {
  const listed = loadAddon().dmList({ prefix: 'blockdelta-' });
  assert.ok(listed.ok);
  return listed.devices.map(({ name }) => name);
}

test('a thin volume with ext4 is used, grows mounted, and is used again', async () => {
  const { orchestrator, client } = running;
  const capability = mountCapability('ext4');
  const spec = { capability, sizeBytes: 32 * MIB };
  const volume = await orchestrator.create('uses', spec);
  const target = await orchestrator.bringUp(volume);
  assert.match(deviceBehind(target), /^\/dev\/dm-/);
  writeFileSync(join(target, 'file'), 'before');
  await orchestrator.expand(volume, 256 * MIB);
  await orchestrator.nodeExpand(volume);
  assertHolds(target, 220 * MIB);
  writeFileSync(join(target, 'larger'), Buffer.alloc(40 * MIB, 3));
  const stats = await client.node.NodeGetVolumeStats({
    volume_id: volume.id,
    volume_path: target,
    staging_target_path: volume.stagingPath,
  });
  assert.equal(stats['volume_condition']?.abnormal ?? false, false);
  await orchestrator.takeDown(volume);
  await orchestrator.bringUp(volume);
  assert.equal(readFileSync(join(target, 'file'), 'utf8'), 'before');
  await refused(orchestrator.delete(volume), 'FAILED_PRECONDITION');
  await remove(volume);
});

nightlyTest(
  "a raw thin volume is written, read, grown, published read-only, and released with the kubelet's loop device",
  async () => {
    const { orchestrator } = running;
    const volume = await orchestrator.create('raw', { sizeBytes: 8 * MIB });
    const target = await orchestrator.bringUp(volume);
    const device = deviceBehind(target);
    assert.match(device, /^\/dev\/dm-/);
    await writeBlocks(target, 5, 3);
    await orchestrator.expand(volume, 16 * MIB);
    await orchestrator.nodeExpand(volume);
    assert.equal(Number(execFileSync('blockdev', ['--getsize64', target])), 16 * MIB);
    await writeBlocks(target, 6, 200);
    await orchestrator.unpublish(volume);
    await orchestrator.publish(volume, { readonly: true });
    await assert.rejects(writeBlocks(target, 7, 3));
    assert.equal(await readBlock(target, 3), 5);
    // As a killed kubelet leaves it.
    const bound = running.workspace.path('bound');
    writeFileSync(bound, '');
    execFileSync('mount', ['--bind', device, bound]);
    attachLoop(bound);
    execFileSync('umount', ['--lazy', bound]);
    await orchestrator.takeDown(volume);
    assert.throws(() => statSync(device), { code: 'ENOENT' });
    await orchestrator.bringUp(volume);
    await writeBlocks(target, 8, 3);
    assert.equal(await readBlock(target, 200), 6);
    await remove(volume);
  },
);

test('snapshots and retained bases give exact deltas, and snapshots can be restored, with sectors of 4096 bytes', async () => {
  const { orchestrator, client } = running;
  const inLarge = { sizeBytes: 8 * MIB, parameters: { pool: LARGE } };
  const volume = await orchestrator.create('changes', inLarge);
  const target = await orchestrator.bringUp(volume);
  assert.equal(Number(execFileSync('blockdev', ['--getss', target])), 4096);
  await writeBlocks(target, 1, 2, 3);
  const first = await orchestrator.snapshot(volume, 'changes-1');
  await writeBlocks(target, 2, 4);
  await writeBlocks(target, 2, 9);
  const second = await orchestrator.snapshot(volume, 'changes-2');
  await writeBlocks(target, 3, 2);
  const allocated = await client.allocated(first);
  assert.equal(allocated.capacity, 8n << 20n);
  assert.deepEqual(allocated.ranges, [{ offset: 2n * BLOCK, size: 3n * BLOCK }]);
  const changed = [
    { offset: 4n * BLOCK, size: BLOCK },
    { offset: 9n * BLOCK, size: BLOCK },
  ];
  assert.deepEqual((await client.delta(first, second)).ranges, changed);
  await orchestrator.deleteSnapshot(first);
  assert.deepEqual((await client.delta(first, second)).ranges, changed);
  const spec = { ...inLarge, snapshotId: second, sizeBytes: 16 * MIB };
  const restored = await orchestrator.create('changes-restored', spec);
  const copy = await orchestrator.bringUp(restored);
  const blocks = [2, 3, 4, 9, 150].map((block) => readBlock(copy, block));
  assert.deepEqual(await Promise.all(blocks), [1, 1, 2, 2, 0]);
  await orchestrator.deleteSnapshot(second);
  await remove(volume, restored);
});

nightlyTest(
  'two xfs of one uuid are mounted at once, with sectors of 4096 bytes: a volume and its restored snapshot, which grows',
  async () => {
    const { orchestrator } = running;
    const capability = mountCapability('xfs');
    const spec = { capability, sizeBytes: 320 * MIB, parameters: { pool: LARGE } };
    const volume = await orchestrator.create('uuid', spec);
    const target = await orchestrator.bringUp(volume);
    writeFileSync(join(target, 'file'), 'not written back yet');
    const snapshotId = await orchestrator.snapshot(volume, 'uuid');
    writeFileSync(join(target, 'file'), 'later');
    const restored = await orchestrator.create('uuid-restored', { ...spec, snapshotId });
    const copy = await orchestrator.bringUp(restored);
    assert.equal(readFileSync(join(copy, 'file'), 'utf8'), 'not written back yet');
    await orchestrator.expand(restored, 512 * MIB);
    await orchestrator.nodeExpand(restored);
    assertHolds(copy, 430 * MIB);
    await remove(volume, restored);
    await orchestrator.deleteSnapshot(snapshotId);
  },
);

for (const type of ['ext4', 'xfs']) {
  const register = type === 'ext4' ? test : nightlyTest;
  register(
    `a thin ${type} that a lost hook left frozen is unstaged, and thawed when it is the first mount again`,
    async () => {
      const { orchestrator } = running;
      const spec = { capability: mountCapability(type), sizeBytes: 320 * MIB };
      const volume = await orchestrator.create(`frozen ${type}`, spec);
      const target = await orchestrator.bringUp(volume);
      const file = join(target, 'file');
      const usable = async (before: string, now: string): Promise<void> => {
        await orchestrator.bringUp(volume);
        assert.ok(!isFrozen(target));
        assert.equal(readFileSync(file, 'utf8'), before);
        writeFileSync(file, now, { flush: true });
        freeze(target);
      };
      writeFileSync(file, 'first');
      freeze(target);
      await orchestrator.takeDown(volume);
      assert.ok(!mappedNames().some((name) => name.endsWith(volume.id)), 'its device is gone');
      await usable('first', 'second');
      // By others: frozen, the file system holds its device, and no mount of it is left.
      for (const path of [target, volume.stagingPath]) execFileSync('umount', [path]);
      await usable('second', 'third');
      await remove(volume);
    },
  );
}

/** Each of the programs starts slowly in the guest. */
nightlyTest('every backup of a thin volume holds what the volume held', async () => {
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
  await proveBackups(options, RETAINED);
});

type Row = Record<string, unknown>;

const SETTINGS = ['NODE_ID', 'STATE_DIR', 'POOLS'].map((name) => `BLOCKDELTA_${name}`);

/** What a command prints as JSON, run in this process: starting one takes seconds on an emulated processor. */
async function run(t: TestContext, ...args: string[]): Promise<unknown> {
  const program = new Command();
  const commands = [addPoolsCommand, addVolumesCommand, addSnapshotsCommand, addDoctorCommand, addGcCommand];
  for (const add of commands) add(program);
  let printed = '';
  const write = t.mock.method(process.stdout, 'write', (text: string, written?: () => void) => {
    printed += text;
    written?.();
    return true;
  });
  for (const name of SETTINGS) process.env[name] = running.plugin.environment[name];
  try {
    await program.parseAsync([...args, '--json'], { from: 'user' });
  } finally {
    for (const name of SETTINGS) delete process.env[name];
    write.mock.restore();
    process.exitCode = 0;
  }
  return JSON.parse(printed);
}

const rows = async (t: TestContext, name: string) => (await run(t, name)) as Row[];

const poolFindings = async (t: TestContext): Promise<string> =>
  JSON.stringify((await rows(t, 'doctor')).find(({ check }) => check === 'pools')?.['findings']);

test('deleting a thin volume or snapshot gives back exactly what --exclusive says', async (t) => {
  const { orchestrator } = running;
  const { pool: identity } = await ledgerContents(running.poolPath(POOL, 'pool.sqlite'));
  const name = new PoolNames(identity.uuid).pool;
  const usedBytes = (): bigint => {
    const answer = loadAddon().thinPoolStatus({ name, commit: true });
    assert.ok(answer.ok && answer.status !== null);
    return answer.status.usedDataBlocks * BLOCK;
  };
  const volume = await orchestrator.create('exclusive', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(volume);
  const snapshots: string[] = [];
  for (const blocks of [[1, 2, 3, 4], [2, 5], [2, 3, 6], []]) {
    for (const block of blocks) await writeBlocks(target, snapshots.length + 1, block);
    snapshots.push(await orchestrator.snapshot(volume));
  }
  const clone = await orchestrator.create('exclusive-clone', { sizeBytes: 16 * MIB, snapshotId: snapshots[1] ?? '' });
  const copy = await orchestrator.bringUp(clone);
  for (const block of [1, 100]) await writeBlocks(copy, 9, block);
  for (const block of [1, 2]) await writeBlocks(target, 8, block);
  for (const each of [volume, clone]) await orchestrator.takeDown(each);
  const exclusiveOf = async (command: string, id: string): Promise<bigint> => {
    const found = (await run(t, command, '--exclusive')) as Row[];
    return BigInt(String(found.find((row) => row['id'] === id)?.['exclusiveBytes']));
  };
  const given: bigint[] = [];
  const expectGiven = async (command: string, id: string, remove: () => Promise<void>): Promise<void> => {
    const expected = await exclusiveOf(command, id);
    const before = usedBytes();
    await remove();
    assert.equal(before - usedBytes(), expected, `${command} ${id}`);
    given.push(expected / BLOCK);
  };
  await expectGiven('volumes', volume.id, () => orchestrator.delete(volume));
  for (const id of snapshots) await expectGiven('snapshots', id, () => orchestrator.deleteSnapshot(id));
  await expectGiven('volumes', clone.id, () => orchestrator.delete(clone));
  // The third and the fourth share all they have.
  assert.deepEqual(given, [2n, 1n, 0n, 0n, 4n, 6n]);
});

// From here on they restart and stop the plugin.
test('a thin pool is listed, examined, and only its idle device is removed', async (t) => {
  const { orchestrator } = running;
  const used = await orchestrator.create('used', { sizeBytes: 16 * MIB });
  const idle = await orchestrator.create('idle', { sizeBytes: 16 * MIB });
  const target = await orchestrator.bringUp(used);
  const { pool: identity, devices } = await ledgerContents(running.poolPath(POOL, 'pool.sqlite'));
  const names = new PoolNames(identity.uuid);

  const [listed] = await rows(t, 'pools');
  assert.equal(listed?.['kind'], 'thin');
  assert.equal((listed?.['thin'] as Row | undefined)?.['mode'], 'rw');
  const device = (await rows(t, 'volumes')).find(({ id }) => id === used.id)?.['device'];
  assert.match(String(device), /^\/dev\/dm-\d+$/);
  assert.equal(await poolFindings(t), '[]');
  execFileSync('dmsetup', ['message', names.pool, '0', 'reserve_metadata_snap']);
  assert.match(await poolFindings(t), /holds a metadata snapshot/);
  execFileSync('dmsetup', ['message', names.pool, '0', 'release_metadata_snap']);

  // Left active, because a volume is attached.
  await running.plugin.stop();
  await writeBlocks(target, 4, 1);
  const created = loadAddon().dmFind({ name: names.pool });
  assert.ok(created.ok && created.device !== null);
  const record = devices.find(({ objectId }) => objectId === idle.id);
  const request = { readOnly: false, sizeSectors: BigInt((16 * MIB) / 512) };
  const left = loadAddon().dmCreate({
    ...request,
    name: names.volume(idle.id),
    type: 'thin',
    uuid: names.volumeUuid(idle.id, { readOnly: false }),
    table: `${created.device.path} ${record?.deviceId}`,
  });
  assert.ok(left.ok);
  const foreign = { ...request, name: 'blockdelta-of-somebody', uuid: 'SOMEBODY-1' };
  assert.ok(loadAddon().dmCreate({ ...foreign, type: 'error', table: '' }).ok);

  const found = (await run(t, 'gc', '--apply')) as { objects: Row[] };
  assert.deepEqual(
    found.objects.map(({ kind, object, removed }) => [kind, object, removed]),
    [['device of a thin volume', left.device.path, true]],
  );
  const mapped = mappedNames();
  assert.ok(!mapped.includes(names.volume(idle.id)));
  for (const name of [names.volume(used.id), 'blockdelta-of-somebody']) assert.ok(mapped.includes(name), name);
  assert.ok(loadAddon().dmRemove({ name: 'blockdelta-of-somebody', deferred: false }).ok);
  await running.start();
  // The publication is found and can be used on.
  const { rdev } = statSync(target);
  assert.equal(statSync(await orchestrator.publish(used)).rdev, rdev);
  assert.equal(await readBlock(target, 1), 4);
  await orchestrator.takeDown(used);
  for (const volume of [used, idle]) await orchestrator.delete(volume);
});

test('a plugin without volumes leaves no device behind when it exits', async () => {
  await running.plugin.stop();
  assert.deepEqual(mappedNames(), []);
});
