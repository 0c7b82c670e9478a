/**
 * Snapshots with a copy on another node: three nodes in network namespaces, pools of their own, and a router. When they are ready,
 * what stays after a deletion and while nodes are away, and that nothing but a deletion removes a copy. Volumes that take the place
 * of others, and their backups.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, type TestContext } from 'node:test';
import { backedUp } from '../../support/backups.js';
import { runCommand } from '../../support/command.js';
import { restoreCopy, takeWithCopy, untilCopied } from '../../support/copied-snapshot.js';
import type { Message } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { detachLoopForSure, loopsOf } from '../../support/loops.js';
import { NodeCluster, untilReachable } from '../../support/node-cluster.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { copyFiles, KEPT_COPY } from '../../support/snapshot-files.js';
import { skipUnlessRoot } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const SIZE = 32 * MIB;
const COPIES = { copies: '1' };

let cluster: NodeCluster;

before(async () => {
  if (skipUnlessRoot !== false) return;
  cluster = await NodeCluster.start('copies', { pools: ['xfs', 'btrfs', 'xfs'] });
});
after(() => cluster?.dispose());

const copyOn = (node: number, snapshotId: string): string[] => copyFiles(cluster.poolPath(node), snapshotId);

const isNoLongerUnavailable = ({ code }: { code?: number }): boolean => code !== 14;

/** The nodes that keep a copy of the snapshot. */
const keepers = (snapshotId: string): number[] =>
  [2, 3].filter((node) => copyOn(node, snapshotId).join() === KEPT_COPY.join());

const take = (volume: HeldVolume, name: string, parameters?: object): Promise<Message> =>
  takeWithCopy(cluster, volume, name, parameters);

const untilReady = (volume: HeldVolume, name: string): Promise<string> => untilCopied(cluster, volume, name);

function write(path: string, bytes: number, seed: string): void {
  writeAt(path, 0, seededRandom(seed).bytes(bytes));
}

const isReady = async (snapshotId: string): Promise<boolean> => {
  const { snapshot } = await cluster.router.client.controller.GetSnapshot({ snapshot_id: snapshotId });
  return snapshot.ready_to_use;
};

/** Listens on all ports of a node's transfers, so that none can be opened until the returned function is called. */
async function takePorts(node: number): Promise<() => Promise<void>> {
  const ports = `for (const port of [10900, 10901, 10902, 10903]) require('node:net').createServer().listen(port);`;
  const [program = '', ...args] = [...cluster.network.on(node), process.execPath, '-e', `${ports} console.log('on');`];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  return async () => {
    child.kill();
    await once(child, 'close');
  };
}

const restores = (node: number, snapshotId: string, content: Buffer): Promise<HeldVolume> =>
  restoreCopy(cluster, [1, node], snapshotId, content);

async function assertRestores(node: number, snapshotId: string, content: Buffer): Promise<void> {
  await cluster.orchestrator(node).remove(await restores(node, snapshotId, content));
}

const askRouter = (t: TestContext, ...args: string[]) =>
  runCommand(t, [...args, '--endpoint', cluster.router.endpoint]);

const supersede = (t: TestContext, old: HeldVolume, by: HeldVolume) => askRouter(t, 'supersede', old.id, by.id);

async function volumeOn1(name: string): Promise<HeldVolume> {
  const volume = await cluster.create(1, name, { sizeBytes: SIZE });
  write(await cluster.orchestrator(1).bringUp(volume), 8 * MIB, name);
  return volume;
}

test('a snapshot is ready when another node keeps a copy, the next costs what changed, and both copies go with their snapshots', async () => {
  const a = cluster.orchestrator(1);
  const volume = await volumeOn1('kept');
  const { snapshot } = await take(volume, 'first');
  assert.equal(snapshot.ready_to_use, false);
  const first = await untilReady(volume, 'first');
  assert.equal(first, snapshot.snapshot_id);
  const [node] = keepers(first);
  assert.ok(node !== undefined);
  write(volume.targetPath, MIB, 'change');
  const second = await untilReady(volume, 'second');
  assert.deepEqual(keepers(second), [node]);
  assert.match(cluster.plugin(node).log, new RegExp(`"snapshot":"${second}","base":"${first}","bytes":"?1048576`));
  for (const id of [first, second]) await a.deleteSnapshot(id);
  await eventually('no copy is left', () => [first, second].every((id) => copyOn(node, id).length === 0));
  await a.remove(volume);
});

test('a class with copies needs a router, the number one, a single snapshot and a node that can hold them', async () => {
  const a = cluster.orchestrator(1);
  const volume = await volumeOn1('refused');
  const own = cluster.plugin(1).client.controller;
  const alone = own.CreateSnapshot({ source_volume_id: volume.id, name: 'alone', parameters: COPIES });
  await refused(alone, 'INVALID_ARGUMENT', /call a router/);
  await refused(
    take(volume, 'two', { copies: '2' }),
    'INVALID_ARGUMENT',
    /parameters\['copies'\] is '2' and must be 1/,
  );
  const group = { name: 'group', source_volume_ids: [volume.id], parameters: COPIES };
  await refused(cluster.router.client.groups.CreateVolumeGroupSnapshot(group), 'INVALID_ARGUMENT', /single snapshots/);
  const { snapshot } = await take(volume, 'plain', {});
  assert.equal(snapshot.ready_to_use, true);
  await refused(take(volume, 'plain'), 'ALREADY_EXISTS', /with copies '0'/);
  for (const node of [2, 3]) await cluster.plugin(node).stop();
  await refused(take(volume, 'nowhere'), 'FAILED_PRECONDITION', /no other node can hold a copy/);
  const { entries } = await cluster.router.client.controller.ListSnapshots({ source_volume_id: volume.id });
  assert.deepEqual(entries.length, 1);
  for (const node of [2, 3]) await cluster.startPlugin(node);
  await eventually('a node can hold it again', () =>
    take(volume, 'somewhere').then(
      () => true,
      (thrown) => {
        assert.equal(thrown.code, 9);
        return false;
      },
    ),
  );
  await a.deleteSnapshot(await untilReady(volume, 'somewhere'));
  await a.deleteSnapshot(snapshot.snapshot_id);
  await a.remove(volume);
});

test('a snapshot whose copy is not there yet is not ready for anybody, has lists, and says what it waits for', async () => {
  const a = cluster.orchestrator(1);
  const volume = await volumeOn1('pending');
  const base = await a.snapshot(volume);
  write(volume.targetPath, MIB, 'change');
  const release = await takePorts(1);
  const { snapshot } = await take(volume, 'waits');
  const id: string = snapshot.snapshot_id;
  const { client } = cluster.router;
  const { entries } = await client.controller.ListSnapshots({ snapshot_id: id });
  assert.deepEqual([snapshot.ready_to_use, entries[0].snapshot.ready_to_use, await isReady(id)], [false, false, false]);
  const clone = cluster.plugin(1).client.controller.CreateVolume({
    name: 'too early',
    capacity_range: { required_bytes: SIZE },
    volume_capabilities: [volume.capability],
    volume_content_source: { snapshot: { snapshot_id: id } },
  });
  await refused(clone, 'ABORTED', /not ready until another node has its copy/);
  assert.ok((await client.delta(base, id)).ranges.length > 0);
  await eventually('it says why', () =>
    take(volume, 'waits').then(
      () => false,
      (thrown) => thrown.code === 14 && /has no copy on another node yet: .*it is tried again/.test(thrown.message),
    ),
  );
  await release();
  assert.equal(await untilReady(volume, 'waits'), id);
  await a.deleteSnapshot(id);
  await a.deleteSnapshot(base);
  await a.remove(volume);
});

test('a deletion succeeds while the node of the copy is away, and the copy goes when it is back', async () => {
  const a = cluster.orchestrator(1);
  const volume = await volumeOn1('away');
  const [gone, kept] = [await untilReady(volume, 'gone'), await untilReady(volume, 'stays')];
  const [node] = keepers(gone);
  assert.ok(node !== undefined);
  assert.deepEqual(keepers(kept), [node]);
  await cluster.plugin(node).kill();
  await a.deleteSnapshot(gone);
  assert.deepEqual(copyOn(node, gone), KEPT_COPY);
  // Neither a restart of the owner nor another router forgets it.
  await cluster.plugin(1).kill();
  await cluster.startPlugin(1);
  await cluster.router.kill();
  await cluster.startRouter();
  await cluster.startPlugin(node);
  await eventually('the copy is removed', () => copyOn(node, gone).length === 0);
  assert.deepEqual(copyOn(node, kept), KEPT_COPY);
  await a.deleteSnapshot(kept);
  await eventually('no copy is left', () => copyOn(node, kept).length === 0);
  await a.remove(volume);
});

test('a router that is killed after any of its calls is not missed: another one makes the copy, and removes it', async () => {
  const a = cluster.orchestrator(1);
  const volume = await volumeOn1('router killed');
  const asked = (rpc: string): number =>
    [1, 2, 3].reduce((sum, node) => sum + cluster.plugin(node).log.split(`Node.${rpc}"`).length - 1, 0);
  const killAfter = async (rpc: string, call: () => Promise<unknown>): Promise<void> => {
    const before = asked(rpc);
    const answered = call().catch(() => undefined);
    await eventually(`${rpc} is called`, () => asked(rpc) > before);
    await cluster.router.kill();
    await answered;
    await cluster.startRouter();
  };
  const snapshots: string[] = [];
  for (const rpc of ['FindRoom', 'CreateCopiedSnapshot', 'OpenTransfer', 'PullSnapshot', 'KeepReplica', 'ReportCopy']) {
    write(volume.targetPath, MIB, rpc);
    await killAfter(rpc, () => take(volume, rpc));
    const id = await untilReady(volume, rpc);
    assert.equal(keepers(id).length, 1, rpc);
    snapshots.push(id);
  }
  for (const rpc of ['FindCopy', 'EndReplica', 'ReportCopy']) {
    const id = snapshots.pop() ?? '';
    await killAfter(rpc, () => a.deleteSnapshot(id));
    await untilReachable(() => a.deleteSnapshot(id));
    await eventually(`the copy goes after ${rpc}`, () => [2, 3].every((node) => copyOn(node, id).length === 0));
  }
  for (const id of snapshots) await untilReachable(() => a.deleteSnapshot(id));
  await eventually('no copy is left', () => snapshots.every((id) => keepers(id).length === 0));
  await a.remove(volume);
});

test('copies stay when their owner is reinstalled under its name, and go when their handles are deleted', async () => {
  const volume = await volumeOn1('reinstalled');
  const snapshots = [await untilReady(volume, 'one'), await untilReady(volume, 'two')] as const;
  const [node] = keepers(snapshots[0]);
  assert.ok(node !== undefined);
  const a = cluster.orchestrator(1);
  const content = readFileSync(volume.targetPath);
  await a.takeDown(volume);
  await cluster.reinstall(1);
  const again = await untilReachable(() => cluster.create(1, 'after', { sizeBytes: SIZE }));
  const other = await untilReady(again, 'other');
  for (const id of snapshots) assert.deepEqual(copyOn(node, id), KEPT_COPY);
  await assertRestores(node, snapshots[1], content);
  await a.deleteSnapshot(snapshots[0]);
  assert.deepEqual([copyOn(node, snapshots[0]), copyOn(node, snapshots[1])], [[], KEPT_COPY]);
  await a.deleteSnapshot(snapshots[1]);
  await a.deleteSnapshot(other);
  await a.delete(again);
});

test('volumes are made from copies when a node has lost its pool, or is retired, and not while it merely does not answer', async (t) => {
  const a = cluster.orchestrator(1);
  const volume = await untilReachable(() => volumeOn1('lost'));
  const id = await untilReady(volume, 'of a node that is lost');
  const [node] = keepers(id);
  assert.ok(node !== undefined);
  const content = readFileSync(volume.targetPath);
  await a.takeDown(volume);
  const own = join(cluster.poolPath(1), 'snapshots', id);
  execFileSync('chattr', ['-i', own]);
  renameSync(own, `${own}.away`);
  await assertRestores(node, id, content);
  renameSync(`${own}.away`, own);
  execFileSync('chattr', ['+i', own]);
  await a.bringUp(volume);
  await cluster.plugin(1).kill();
  // As after a power cut: the catalogue still says that it is staged.
  for (const path of [volume.targetPath, join(volume.stagingPath, 'device')]) execFileSync('umount', [path]);
  for (const device of loopsOf(join(cluster.poolPath(1), 'volumes', volume.id))) await detachLoopForSure(device);
  const spec = { snapshotId: id, sizeBytes: SIZE };
  await refused(cluster.create(node, 'too early', spec), 'UNAVAILABLE', /node-1/);
  await cluster.retire(1);
  const b = cluster.orchestrator(node);
  const recovered = await restores(node, id, content);
  assert.equal((await supersede(t, volume, recovered)).code, 0);
  await a.deleteSnapshot(id);
  assert.deepEqual(copyOn(node, id), []);
  await refused(cluster.create(node, 'too late', spec), 'FAILED_PRECONDITION', /is retired/);
  await a.delete(volume);
  // It boots while it is retired: what it has is still there, and is not used as long as nobody says that it may be.
  rmSync(cluster.place.path('node-1', 'staging-cleared'));
  await cluster.startPlugin(1);
  await refused(a.stage(volume), 'UNAVAILABLE', /no router has said that the node is not retired/);
  cluster.list({ retired: [] });
  await eventually('a router has said what is superseded', () =>
    a.stage(volume).then(() => assert.fail('it was staged'), isNoLongerUnavailable),
  );
  await refused(a.stage(volume), 'FAILED_PRECONDITION', new RegExp(`superseded: ${recovered.id} has taken its place`));
  assert.ok(readFileSync(recovered.targetPath).equals(content));
  const again = await supersede(t, recovered, volume);
  assert.match(`${again.code} ${again.stderr}`, /^[1-9].*is in use at/);
  await untilReachable(() => a.deleteSnapshot(id));
  await a.delete(volume);
  await b.remove(recovered);
});

test('a node that was retired and has not booted is told what is superseded when it is not retired any more', async (t) => {
  const a = cluster.orchestrator(1);
  const volume = await untilReachable(() => volumeOn1('partitioned'));
  const id = await untilReady(volume, 'of a node without a network');
  const [node] = keepers(id);
  assert.ok(node !== undefined);
  const content = readFileSync(volume.targetPath);
  await a.takeDown(volume);
  await cluster.retire(1);
  const recovered = await restores(node, id, content);
  assert.equal((await supersede(t, volume, recovered)).code, 0);
  cluster.list({ retired: [] });
  await eventually('it refuses', async () => (await cluster.command(t, 1, 'volumes')).includes('superseded'));
  await refused(a.stage(volume), 'FAILED_PRECONDITION', new RegExp(`superseded: ${recovered.id} has taken its place`));
  await untilReachable(() => a.deleteSnapshot(id));
  await a.delete(volume);
  await cluster.orchestrator(node).remove(recovered);
});

test('a volume is cordoned unless it is in use, and can be used again when its cordon is undone', async (t) => {
  const a = cluster.orchestrator(1);
  const volume = await untilReachable(() => volumeOn1('cordoned'));
  const early = await askRouter(t, 'cordon', volume.id);
  assert.match(
    `${early.code} ${early.stderr}`,
    /^[1-9].*is in use at .*, so it cannot be cordoned: stop what uses it first/,
  );
  await a.takeDown(volume);
  for (let count = 0; count < 2; count += 1) assert.equal((await askRouter(t, 'cordon', volume.id)).code, 0);
  await refused(a.stage(volume), 'FAILED_PRECONDITION', /is cordoned, because another one is to take its place/);
  assert.match(await cluster.command(t, 1, 'volumes'), new RegExp(`${volume.id}.* cordoned `));
  await a.deleteSnapshot(await a.snapshot(volume));
  assert.equal((await askRouter(t, 'cordon', '--undo', volume.id)).code, 0);
  await a.bringUp(volume);
  await a.remove(volume);
});

test('copies are compared with their snapshots, and those that differ, are lost or cannot be read are named', async (t) => {
  const a = cluster.orchestrator(1);
  const volume = await untilReachable(() => volumeOn1('verified'));
  const id = await untilReady(volume, 'verified');
  const [holder = 0] = keepers(id);
  const verify = (...options: string[]) => askRouter(t, 'replicas', ...options);
  const whole = await verify('--verify');
  assert.deepEqual([whole.code, whole.stderr], [0, '']);
  const name = `${id} on ${cluster.nodeId(holder)}`;
  assert.ok(whole.stdout.startsWith(`${name}: equal, 32 MiB\n`), whole.stdout);
  assert.match(whole.stdout, /^copies: 1, different or lost: 0$/m);

  const change = (offset: number, ...touch: string[]): void => {
    const file = join(cluster.poolPath(holder), 'snapshots', `${id}.replica`);
    const before = `${file}.before`;
    execFileSync('chattr', ['-i', file]);
    execFileSync('touch', ['--reference', file, before]);
    writeAt(file, offset, Buffer.alloc(1));
    execFileSync('touch', [...touch.map((each) => each.replace('BEFORE', before)), file]);
    rmSync(before);
    execFileSync('chattr', ['+i', file]);
  };
  // As a disk that has lost a byte: the file still has the time of its seal.
  change(2 * MIB + 7, '--reference', 'BEFORE');
  const rotten = await verify('--verify', id);
  assert.deepEqual([rotten.code, rotten.stderr], [1, '']);
  assert.ok(rotten.stdout.startsWith(`${name}: different: in bytes 0 to 33554432\n`), rotten.stdout);
  change(0);
  const changed = await verify('--json', '--verify', id);
  assert.equal(changed.code, 1);
  const [found] = JSON.parse(changed.stdout).copies;
  assert.deepEqual([found.snapshotId, found.result], [id, 'lost']);
  assert.match(found.why, /was changed by another program/);
  await cluster.plugin(holder).kill();
  const unknown = await verify('--verify');
  assert.equal(unknown.code, 7);
  assert.ok(unknown.stdout.startsWith(`${name}: not verified: `), unknown.stdout);
  await cluster.startPlugin(holder);

  const remove = () => askRouter(t, 'replicas', 'delete', '--force', id);
  const early = await remove();
  assert.equal(early.code, 5);
  assert.match(early.stderr, /has snapshot .* and counts on its copy: delete the snapshot, and its copy goes/);
  const own = join(cluster.poolPath(1), 'snapshots', id);
  execFileSync('chattr', ['-i', own]);
  rmSync(own);
  await eventually('the copy is removed', async () => (await remove()).code === 0);
  assert.deepEqual(copyOn(holder, id), []);
  const gone = await verify('--verify', id);
  assert.deepEqual([gone.code, /not verified: .*snapshot/.test(gone.stdout)], [7, true]);
  await a.deleteSnapshot(id);
  assert.equal((await verify('--verify', id)).code, 4);
  await a.takeDown(volume);
  await a.delete(volume);
});

test('the first backup of a volume that was moved is full and says why, and the next one is incremental', async (t) => {
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(2)];
  const { client } = cluster.router;
  const backUp = (node: number, snapshotId: string) =>
    backedUp(
      t,
      {
        endpoint: cluster.plugin(node).endpoint,
        directory: cluster.place.path('backups'),
        temporary: cluster.place.directory,
      },
      snapshotId,
    );
  const volume = await untilReachable(() => volumeOn1('backed up'));
  const base = await a.snapshot(volume);
  assert.equal((await backUp(1, base)).method, 'full');
  write(volume.targetPath, MIB, 'with the move');
  await a.takeDown(volume);
  assert.equal((await askRouter(t, 'cordon', volume.id)).code, 0);
  const snapshotId = await a.snapshot(volume);
  const moved = await cluster.create(2, 'moved', {
    snapshotId,
    sizeBytes: SIZE,
    parameters: { remoteSources: 'true' },
  });
  assert.equal((await supersede(t, volume, moved)).code, 0);
  write(await b.bringUp(moved), 4096, 'after the move');

  const target = await b.snapshot(moved);
  const full = await backUp(2, target);
  const reason = 'there is no backup of an earlier snapshot of the volume';
  assert.deepEqual([full.method, full.reason], ['full', reason]);
  assert.equal(JSON.parse(readFileSync(full.manifest, 'utf8')).reason, reason);
  const restored = cluster.place.path('restored.raw');
  const choice = ['--volume', moved.id, '--snapshot', target, '--to', restored];
  assert.equal((await runCommand(t, ['restore', cluster.place.path('backups'), ...choice])).code, 0);
  assert.ok(readFileSync(restored).equals(readFileSync(moved.targetPath)));

  // As Velero calls: its base is deleted, and the handle is all that it knows.
  await a.deleteSnapshot(base);
  await refused(client.delta(base, target), 'INVALID_ARGUMENT', /belong to different nodes/);
  assert.ok((await client.allocated(target)).ranges.length > 0);
  await b.deleteSnapshot(target);
  write(moved.targetPath, 8192, 'the day after');
  const next = await b.snapshot(moved);
  assert.deepEqual((await client.delta(target, next)).ranges, [{ offset: 0n, size: 8192n }]);
  const incremental = await backUp(2, next);
  assert.deepEqual([incremental.base_snapshot_id, incremental.range_bytes], [target, '8192']);
  for (const id of [snapshotId, next]) await a.deleteSnapshot(id);
  await b.remove(moved);
  await a.delete(volume);
});
