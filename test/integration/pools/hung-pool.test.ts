/**
 * A pool whose own file system is frozen: calls for it hang in the kernel, or are refused, and hold what is the pool's.
 * The other pool is served as before, and so is whatever writes nothing to the one that hangs.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { mountCapability } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { createRequest, type HeldVolume, MIB, untilReleased, type VolumeSpec } from '../../support/orchestrator.js';
import { refused, statusOf } from '../../support/refusal.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';

/** Calls of each kind. */
const CALLS = 8;
const LARGER = 16 * MIB;
const FILES = { capability: mountCapability('ext4'), sizeBytes: 32 * MIB };
/** A call that hangs may be given up by the plugin, or by its caller. */
const HUNG = ['ABORTED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'] as const;
const DEADLINE = { deadlineMs: 5000 };
const DEVICE_THREADS = 2;
const VOLUME_THREADS = 4;
/** Of one pool: work and look-ups, and those for volumes with as many that release them. */
const THREADS = DEVICE_THREADS + (DEVICE_THREADS + 1) + 2 * VOLUME_THREADS;

const running = runPlugin('hung-pool', {
  pools: { hung: 'xfs', sound: 'btrfs' },
  env: { BLOCKDELTA_DEVICE_THREADS: String(DEVICE_THREADS), BLOCKDELTA_VOLUME_THREADS: String(VOLUME_THREADS) },
});
const { orchestrator } = running;

const tasks = (): number => readdirSync(`/proc/${running.plugin.process.pid}/task`).length;
const inPool = (pool: string, spec: VolumeSpec = {}): VolumeSpec => ({ ...spec, parameters: { pool } });

async function volumes(what: string): Promise<HeldVolume[]> {
  const made: HeldVolume[] = [];
  for (let index = 0; index < CALLS; index += 1) {
    made.push(await orchestrator.create(`${what} ${index}`, inPool('hung')));
  }
  return made;
}

/** Everything that a node does for a volume, from its creation to its deletion. */
async function wholeLife(name: string): Promise<void> {
  const volume = await orchestrator.create(name, inPool('sound', FILES));
  const target = await orchestrator.bringUp(volume);
  writeFileSync(join(target, 'file'), name);
  await statistics(volume);
  const snapshot = await orchestrator.snapshot(volume);
  const copy = { ...inPool('sound', FILES), snapshotId: snapshot };
  const restored = await orchestrator.create(`restored ${name}`, copy);
  await orchestrator.expand(volume, 2 * FILES.sizeBytes);
  await orchestrator.bringUp(restored);
  assert.equal(readFileSync(join(restored.targetPath, 'file'), 'utf8'), name);
  await orchestrator.remove(restored, volume);
  await orchestrator.deleteSnapshot(snapshot);
}

async function statistics({ id, targetPath }: HeldVolume): Promise<void> {
  const request = { volume_id: id, volume_path: targetPath };
  const { usage } = await running.client.node.NodeGetVolumeStats(request);
  assert.ok(usage.length > 0);
}

async function probe(): Promise<void> {
  assert.equal((await running.client.identity.Probe({}))['ready'].value, true);
}

type Call = (options?: typeof DEADLINE) => Promise<unknown>;

/** By kind, calls of which each writes to the pool. */
async function mutatingCalls(staged: readonly HeldVolume[]): Promise<Record<string, Call[]>> {
  const { controller, groups, node } = running.client;
  const sources = await volumes('source');
  const snapshots: string[] = [];
  for (const source of [...sources, ...sources]) snapshots.push(await orchestrator.snapshot(source));
  const create =
    (name: string, spec: VolumeSpec = {}): Call =>
    (options) =>
      controller.CreateVolume(createRequest(name, inPool('hung', spec)), options);
  const larger = { required_bytes: LARGER, limit_bytes: LARGER };
  return {
    // Writes its marks first.
    stage: staged.map(({ id, stagingPath, capability }): Call => {
      const place = { staging_target_path: stagingPath, volume_capability: capability };
      return (options) => node.NodeStageVolume({ volume_id: id, ...place }, options);
    }),
    create: sources.map(({ id }) => create(`another ${id}`)),
    restore: snapshots.slice(CALLS).map((id) => create(`restored ${id}`, { snapshotId: id })),
    clone: (await volumes('cloned')).map(({ id }) => create(`clone of ${id}`, { volumeId: id })),
    delete: (await volumes('deleted')).map(
      ({ id }): Call =>
        (options) =>
          controller.DeleteVolume({ volume_id: id }, options),
    ),
    expand: (await volumes('expanded')).map(
      ({ id }): Call =>
        (options) =>
          controller.ControllerExpandVolume({ volume_id: id, capacity_range: larger }, options),
    ),
    snapshot: sources.map(
      ({ id }): Call =>
        (options) =>
          controller.CreateSnapshot({ source_volume_id: id, name: `of ${id}` }, options),
    ),
    'delete a snapshot': snapshots.slice(0, CALLS).map(
      (id): Call =>
        (options) =>
          controller.DeleteSnapshot({ snapshot_id: id }, options),
    ),
    group: (await volumes('grouped')).map(
      ({ id }): Call =>
        (options) =>
          groups.CreateVolumeGroupSnapshot({ source_volume_ids: [id], name: `group of ${id}` }, options),
    ),
  };
}

test('a start waits a while for a pool whose file system is frozen, serves the other one, and takes it up later', async () => {
  const kept = await orchestrator.create('kept by a start', inPool('hung'));
  const pool = running.poolPath('hung');
  await running.plugin.stop();
  execFileSync('fsfreeze', ['--freeze', pool]);
  try {
    await running.start();
    await wholeLife('beside the start');
    await refused(orchestrator.bringUp(kept), 'UNAVAILABLE', /'hung' has not answered for \d+ s/);
  } finally {
    spawnSync('fsfreeze', ['--unfreeze', pool]);
  }
  await eventually('the pool is taken up', async () => {
    return (await statusOf(orchestrator.bringUp(kept))) === 'OK';
  });
  await orchestrator.remove(kept);
  assert.deepEqual(running.held(), NOTHING);
});

test('a pool whose file system is frozen holds threads of its own, all others go on, and nothing is lost', async () => {
  const kept = await orchestrator.create('kept', inPool('hung', FILES));
  const file = join(await orchestrator.bringUp(kept), 'file');
  writeFileSync(file, 'kept', { flush: true });
  const released = await orchestrator.create('released', inPool('hung'));
  await orchestrator.bringUp(released);
  const staged = await volumes('staged');
  for (const { stagingPath } of staged) await mkdir(stagingPath, { recursive: true });
  const calls = await mutatingCalls(staged);
  await wholeLife('before');
  const before = tasks();

  const pool = running.poolPath('hung');
  execFileSync('fsfreeze', ['--freeze', pool]);
  try {
    for (const [kind, some] of Object.entries(calls)) {
      const answers = some.map((call) => refused(call(DEADLINE), HUNG));
      await Promise.all([...answers, probe()]).catch((thrown: Error) => {
        throw new Error(`${kind}: ${thrown.message}`, { cause: thrown });
      });
    }
    await wholeLife('meanwhile');
    await probe();
    await statistics(kept);
    await orchestrator.unpublish(released);
    await orchestrator.unstage(released);
    const held = /busy with 2 calls \(.* for \d+ s\), which wait for pool 'hung': check its disk, or thaw it/;
    await refused(orchestrator.create('one more', inPool('hung')), 'ABORTED', held);
    const more = tasks() - before;
    assert.ok(more <= 2 * THREADS, `${more} threads more`);
  } finally {
    // Nothing that waits for it can end before.
    spawnSync('fsfreeze', ['--unfreeze', pool]);
  }

  for (const call of Object.values(calls).flat()) await untilReleased(call);
  await wholeLife('after');
  await orchestrator.takeDown(kept);
  await orchestrator.bringUp(kept);
  assert.equal(readFileSync(file, 'utf8'), 'kept');
  for (const volume of staged) await orchestrator.unstage(volume);
  await orchestrator.remove(kept);
  assert.deepEqual(running.held(), NOTHING);
});
