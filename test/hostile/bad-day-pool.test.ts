/**
 * A damaged pool: its files truncated, written to or missing, its disk unavailable, something mounted over it,
 * its space used up. Nothing is created from incomplete objects, and the error says what was found.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { OpenDirectories } from '../../src/driver/backends/reflink/open-directories.js';
import { PoolLayout } from '../../src/driver/backends/reflink/pool-layout.js';
import { NativePool } from '../../src/driver/native/pool.js';
import type { Message } from '../support/csi-client.js';
import { eventually } from '../support/eventually.js';
import { setImmutable } from '../support/ioctls.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { logLines } from '../support/plugin-log.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const KINDS = ['xfs', 'btrfs'] as const;
const running = runPlugin('bad-day', { pools: { xfs: 'xfs', btrfs: 'btrfs' }, poolSizeMiB: 512 });

const create = (pool: string, name: string): Promise<HeldVolume> =>
  running.orchestrator.create(`${pool} ${name}`, { parameters: { pool } });
const volumeFile = (pool: string, { id }: HeldVolume): string => running.poolPath(pool, 'volumes', id);
const snapshotFile = (pool: string, id: string): string => running.poolPath(pool, 'snapshots', id);

const snapshot = (volume: HeldVolume, name: string): Promise<string> => running.orchestrator.snapshot(volume, name);
const copy = (pool: string, name: string, of: { snapshotId?: string; volumeId?: string }) =>
  running.orchestrator.create(`${pool} ${name}`, { ...of, parameters: { pool } });
const restore = (pool: string, snapshotId: string): Promise<HeldVolume> =>
  copy(pool, `restored from ${snapshotId}`, { snapshotId });

/** Does something to a snapshot's file that its flag forbids, and sets the flag again. */
function tamper(path: string, change: () => void): void {
  setImmutable(path, false);
  change();
  setImmutable(path, true);
}

async function remove(volumes: HeldVolume[], snapshotIds: readonly string[] = []): Promise<void> {
  for (const id of snapshotIds) await running.orchestrator.deleteSnapshot(id);
  for (const volume of volumes) await running.orchestrator.delete(volume);
}

const image = (pool: string): string => running.workspace.path(`${pool}.img`);
/** The plugin may look at the pool at any moment, and holds what it looks at. */
const umount = (path: string): Promise<void> =>
  eventually(`${path} is unmounted`, () => spawnSync('umount', [path]).status === 0);
const mount = (...options: string[]): void => void execFileSync('mount', options);

/** Everything that can be asked of a pool, with a volume and two snapshots of it there. */
function everything(pool: string, volume: HeldVolume, [first, second]: readonly [string, string]) {
  const { client, orchestrator } = running;
  return {
    create: () => create(pool, 'new'),
    'create again': () => create(pool, 'reached'),
    restore: () => copy(pool, 'copy', { snapshotId: first }),
    clone: () => copy(pool, 'copy', { volumeId: volume.id }),
    snapshot: () => snapshot(volume, `${pool} third`),
    'snapshot again': () => snapshot(volume, `${pool} first`),
    group: () => orchestrator.groupSnapshot([volume], `${pool} group`),
    capacity: () => client.controller.GetCapacity({ parameters: { pool } }),
    delta: () => client.delta(first, second),
    allocated: () => client.allocated(first),
    expand: () => orchestrator.expand(volume, 16 * MIB),
    stage: () => orchestrator.stage(volume),
    'delete snapshot': () => client.controller.DeleteSnapshot({ snapshot_id: first }),
    'delete volume': () => client.controller.DeleteVolume({ volume_id: volume.id }),
  };
}

/** All of it is refused because the pool is away, and for no other reason; Probe is OK for the other pool. */
async function assertUnreachable(calls: ReturnType<typeof everything>): Promise<void> {
  for (const call of Object.values(calls)) {
    await refused(call(), 'FAILED_PRECONDITION', /pool '.*' cannot be reached/);
  }
  assert.deepEqual(await running.client.identity.Probe({}), { ready: { value: true } });
}

/** A volume with two snapshots. */
async function reached(pool: string) {
  const volume = await create(pool, 'reached');
  const first = await snapshot(volume, `${pool} first`);
  const ids = [first, await snapshot(volume, `${pool} second`)] as const;
  return { volume, ids };
}

for (const pool of KINDS) {
  test(`H17: a pool whose disk is unmounted is unavailable, and has lost nothing, on ${pool}`, async () => {
    const { volume, ids } = await reached(pool);
    const root = running.poolPath(pool);
    // Nothing of an idle pool is kept open. It is idle once the change lists of the snapshots are made.
    await umount(root);
    await assertUnreachable(everything(pool, volume, ids));
    assert.deepEqual(readdirSync(root), [], 'nothing was written below the mount point');
    const { health_statuses } = (await running.client.controller.ControllerGetVolumeHealth({ volume_id: volume.id }))[
      'volume_health'
    ];
    assert.deepEqual(
      health_statuses.map(({ reason }: Message) => reason),
      ['PoolUnreachable'],
    );
    mount('-o', 'loop', image(pool), root);
    const { ranges } = await running.client.delta(ids[0], ids[1]);
    assert.deepEqual(ranges, []);
    await remove([volume, await restore(pool, ids[0])], ids);
  });

  test(`H7: a file system mounted over a pool receives none of its data, on ${pool}`, async () => {
    const { volume, ids } = await reached(pool);
    const root = running.poolPath(pool);
    const decoy = running.poolPath(pool, 'decoy');
    mkdirSync(decoy);
    for (const name of ['', 'volumes', 'snapshots', 'initialized']) {
      const place = join(root, name);
      for (const options of [
        ['-t', 'tmpfs', 'tenant', place],
        ['--bind', decoy, place],
      ]) {
        mount(...options);
        await assertUnreachable(everything(pool, volume, ids));
        assert.deepEqual(readdirSync(place), []);
        await umount(place);
      }
    }
    rmdirSync(decoy);
    await running.client.delta(ids[0], ids[1]);
    await remove([volume], ids);
  });

  test(`H7: a file mounted over that of a volume or snapshot is not used in its place, on ${pool}`, async () => {
    const { volume, ids } = await reached(pool);
    const foreign = running.workspace.path(`${pool}-foreign`);
    writeFileSync(foreign, Buffer.alloc(8 * MIB, 0xee));
    const over = /something is mounted over/;
    const calls = everything(pool, volume, ids);
    for (const [path, names] of [
      [volumeFile(pool, volume), ['create again', 'clone', 'snapshot', 'expand', 'stage', 'delete volume']],
      [snapshotFile(pool, ids[0]), ['restore', 'snapshot again', 'delta', 'allocated']],
    ] as const) {
      mount('--bind', foreign, path);
      for (const name of names) await refused(calls[name](), 'FAILED_PRECONDITION', over);
      await umount(path);
    }
    await remove([volume], ids);
    assert.equal(readFileSync(foreign).length, 8 * MIB);
  });

  test(`H16: a snapshot that is short or missing is not restored, and CreateSnapshot does not answer with it, on ${pool}`, async () => {
    const volume = await create(pool, 'short snapshot');
    const id = await snapshot(volume, `${pool} short`);
    const path = snapshotFile(pool, id);
    tamper(path, () => truncateSync(path, 4 * MIB));
    const before = await running.orchestrator.volumeIds();
    for (const call of [() => restore(pool, id), () => snapshot(volume, `${pool} short`)]) {
      await refused(call(), 'FAILED_PRECONDITION', /4194304/);
    }
    assert.deepEqual(await running.orchestrator.volumeIds(), before);
    setImmutable(path, false);
    rmSync(path);
    const again = snapshot(volume, `${pool} short`);
    await refused(again, 'FAILED_PRECONDITION', /lost its file/);
    await remove([volume], [id]);
  });

  test(`H16: a snapshot that was written to is not restored, whether or not it is immutable again, on ${pool}`, async () => {
    const volume = await create(pool, 'written snapshot');
    const id = await snapshot(volume, `${pool} written`);
    const path = snapshotFile(pool, id);
    setImmutable(path, false);
    await refused(restore(pool, id), 'FAILED_PRECONDITION', /immutable/);
    setImmutable(path, true);
    const whole = await restore(pool, id);
    tamper(path, () => writeFileSync(path, 'x', { flag: 'r+', flush: true }));
    const second = copy(pool, 'second', { snapshotId: id });
    await refused(second, 'FAILED_PRECONDITION', /written to after/);
    const list = running.client.allocated(id);
    await refused(list, 'FAILED_PRECONDITION', /changed after it was taken/);
    await remove([volume, whole], [id]);
  });

  test(`H16: a truncated volume is not cloned, staged, snapshotted or expanded, on ${pool}`, async () => {
    const { orchestrator } = running;
    const volume = await create(pool, 'short volume');
    const path = volumeFile(pool, volume);
    truncateSync(path, 4 * MIB);
    for (const call of [
      () => copy(pool, 'clone', { volumeId: volume.id }),
      () => orchestrator.stage(volume),
      () => snapshot(volume, `${pool} of a short one`),
      () => orchestrator.groupSnapshot([volume], `${pool} group`),
      () => orchestrator.expand(volume, 16 * MIB),
      () => create(pool, 'short volume'),
    ]) {
      await refused(call(), 'FAILED_PRECONDITION', /should have 8388608 bytes.*4194304/);
    }
    assert.deepEqual(await orchestrator.snapshotIds(), []);
    truncateSync(path, 8 * MIB);
    await remove([volume]);
  });

  test(`H16: an object whose deletion failed is reported as it is until the deletion completes, on ${pool}`, async () => {
    const { client, orchestrator } = running;
    const [volume, other] = [await create(pool, 'kept'), await create(pool, 'stuck')];
    const id = await snapshot(volume, `${pool} stuck`);
    // The file of a newest snapshot would stay.
    const later = await snapshot(volume, `${pool} later`);
    // A directory cannot be unlinked, so neither deletion can end.
    const stuck = [`${snapshotFile(pool, id)}.tmp`, `${volumeFile(pool, other)}.tmp`];
    for (const path of stuck) mkdirSync(path);
    await assert.rejects(client.controller.DeleteSnapshot({ snapshot_id: id }));
    await assert.rejects(client.controller.DeleteVolume({ volume_id: other.id }));
    const unfinished = /deletion has not completed; call Delete/;
    for (const call of [
      () => client.allocated(id),
      () => restore(pool, id),
      () => orchestrator.stage(other),
      () => snapshot(other, `${pool} of a stuck one`),
      () => client.controller.ControllerGetVolume({ volume_id: other.id }),
    ]) {
      await refused(call(), 'FAILED_PRECONDITION', unfinished);
    }
    const { entries } = await client.controller.ListSnapshots({ snapshot_id: id });
    assert.deepEqual(
      entries.map((entry: Message) => entry['snapshot'].ready_to_use),
      [false],
    );
    for (const path of stuck) rmdirSync(path);
    await remove([volume, other], [id, later]);
    assert.deepEqual(await orchestrator.snapshotIds(), []);
  });
}

for (const pool of KINDS) {
  test(`H33: a file in the place of lists or bases is named, and no snapshot is half deleted, on ${pool}`, async () => {
    const { client, orchestrator } = running;
    const { volume, ids } = await reached(pool);
    const [first, second] = ids;
    // Its file stays, and a mark for it.
    await orchestrator.deleteSnapshot(await snapshot(volume, `${pool} hidden`));
    for (const [name, id] of [
      ['lists', first],
      ['bases', second],
    ] as const) {
      const place = running.poolPath(pool, name);
      const saved = `${place}.saved`;
      await eventually(`${name} is there`, () => existsSync(place));
      renameSync(place, saved);
      writeFileSync(place, '');
      const deletion = client.controller.DeleteSnapshot({ snapshot_id: id });
      const said = new RegExp(`^${place} of pool .* is a regular file: .*put the directory back`);
      await refused(deletion, 'FAILED_PRECONDITION', said);
      const { entries } = await client.controller.ListSnapshots({ snapshot_id: id });
      assert.deepEqual(
        entries.map((entry: Message) => entry['snapshot'].ready_to_use),
        [true],
      );
      await client.delta(first, second).catch(({ details }: ServiceError) => {
        assert.match(details, said);
      });
      rmSync(place);
      renameSync(saved, place);
      await client.delta(first, second);
    }
    const last = await snapshot(volume, `${pool} last`);
    for (const id of ids) await orchestrator.deleteSnapshot(id);
    for (const id of ids) await client.delta(id, last);
    await remove([volume], [last]);
  });
}

/** What somebody may do to the file of a deleted snapshot, and what is said of it. */
const CHANGES: readonly (readonly [change: (path: string) => void, said: RegExp])[] = [
  [(path) => tamper(path, () => writeFileSync(path, 'x', { flag: 'r+' })), /written to after it/],
  [(path) => tamper(path, () => truncateSync(path, 4 * MIB)), /written to after it/],
  [(path) => setImmutable(path, false), /no longer immutable/],
  [(path) => tamper(path, () => undefined), /was changed by another program/],
  [(path) => [setImmutable(path, false), rmSync(path)], /is gone/],
];

for (const pool of KINDS) {
  test(`H34: a deleted base whose file was changed is NOT_FOUND, and the log says why, on ${pool}`, async () => {
    const volume = await create(pool, 'changed base');
    for (const [at, [change, said]] of CHANGES.entries()) {
      const base = await snapshot(volume, `${pool} base ${at}`);
      await running.orchestrator.deleteSnapshot(base);
      change(snapshotFile(pool, base));
      const target = await snapshot(volume, `${pool} target ${at}`);
      for (let count = 0; count < 2; count += 1) await refused(running.client.delta(base, target), 'NOT_FOUND', said);
      const lines = logLines(running.plugin.log).filter(({ msg }) => String(msg).includes(`base ${base} is invalid`));
      assert.deepEqual(
        lines.map(({ level }) => level),
        ['warn'],
      );
      assert.match(String(lines[0]?.['msg']), said);
      await remove([], [target]);
    }
    await remove([volume]);
  });

  test(`H34: the files of two deleted bases that changed places are NOT_FOUND, on ${pool}`, async () => {
    const volumes = [await create(pool, 'one'), await create(pool, 'another')];
    const bases: string[] = [];
    for (const volume of volumes) {
      const base = await snapshot(volume, `${pool} base of ${volume.id}`);
      await running.orchestrator.deleteSnapshot(base);
      bases.push(base);
    }
    const files = bases.map((base) => snapshotFile(pool, base)) as [string, string];
    for (const path of files) setImmutable(path, false);
    const [one, another] = files;
    renameSync(one, `${one}-saved`);
    renameSync(another, one);
    renameSync(`${one}-saved`, another);
    for (const path of files) setImmutable(path, true);
    for (const [at, volume] of volumes.entries()) {
      const target = await snapshot(volume, `${pool} target of ${volume.id}`);
      for (let count = 0; count < 2; count += 1)
        await refused(running.client.delta(bases[at] as string, target), 'NOT_FOUND', /changed by/);
      await remove([volume], [target]);
    }
  });
}

test('H17: a stream whose pool disappears ends with an unavailable pool, and not with a missing snapshot', async () => {
  const sizeBytes = 256 * MIB;
  const spec = { parameters: { pool: 'xfs' }, sizeBytes };
  const volume = await running.orchestrator.create('xfs listed', spec);
  // More ranges than are sent, read ahead and buffered before anybody reads.
  const file = openSync(volumeFile('xfs', volume), 'r+');
  const block = Buffer.alloc(4096, 1);
  for (let at = 0; at < sizeBytes; at += 8192) writeSync(file, block, 0, 4096, at);
  closeSync(file);
  const id = await snapshot(volume, 'listed');
  const stream = running.client.open('GetMetadataAllocated', { snapshot_id: id, max_results: 64 });
  await once(stream, 'data');
  stream.pause();
  // The chunk that is read at the moment keeps the pool for so long.
  const root = running.poolPath('xfs');
  await umount(root);
  const ended = new Promise((resolve, reject) => stream.on('end', resolve).on('error', reject));
  stream.resume();
  await refused(ended, 'FAILED_PRECONDITION', /cannot be reached/);
  mount('-o', 'loop', image('xfs'), root);
  await running.client.allocated(id);
  await remove([volume], [id]);
});

test('H7: a running operation writes to the pool, whatever is mounted over it meanwhile', async () => {
  const root = running.poolPath('xfs');
  const native = new NativePool(1);
  const held = await OpenDirectories.open(native, new PoolLayout(root));
  for (const place of ['volumes', '']) mount('-t', 'tmpfs', 'tenant', join(root, place));
  writeFileSync(join(held.layout.volumes, 'vol-begun'), 'of the pool');
  held.close();
  await native.close();
  for (const place of ['', 'volumes']) await umount(join(root, place));
  assert.equal(readFileSync(join(root, 'volumes', 'vol-begun'), 'utf8'), 'of the pool');
  rmSync(join(root, 'volumes', 'vol-begun'));
});
