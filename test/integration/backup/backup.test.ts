/**
 * `blockdelta backup` as a process, beside the plugin: what its images hold and what its manifests say. Then
 * histories in which bases are deleted and expire, and the volume grows.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileSystemUse, proveBackups, RAW } from '../../support/backed-up-volume.js';
import { assertSame, backedUp, type Place, runBackup } from '../../support/backups.js';
import { isNightly } from '../../support/nightly.js';
import { type HeldVolume, MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { runPlugin, test } from '../../support/running-plugin.js';
import { writeAt } from '../../support/write-at.js';

const SIZE = 64 * MIB;
const RETAINED = 3;
const running = runPlugin('backup', {
  pools: { pool: 'xfs' },
  poolSizeMiB: 1024,
  env: { BLOCKDELTA_RETAINED_BASES_COUNT: String(RETAINED) },
});
const random = seededRandom('backup');

const volumes: HeldVolume[] = [];
async function newVolume(): Promise<HeldVolume> {
  const name = `backup-${volumes.length}`;
  const volume = await running.orchestrator.create(name, { sizeBytes: SIZE });
  await running.orchestrator.bringUp(volume);
  volumes.push(volume);
  return volume;
}

const place = (): Place => ({
  endpoint: running.plugin.endpoint,
  directory: running.workspace.path('backups'),
  temporary: running.workspace.path(),
});

const write = (volume: HeldVolume, offset: number, length: number): void =>
  writeAt(volume.targetPath, offset, random.bytes(length));

test('backups after a full one are incremental, also after the base was deleted', async (t) => {
  const { orchestrator } = running;
  const volume = await newVolume();
  write(volume, 0, 8 * MIB);
  const first = await orchestrator.snapshot(volume, 'chain-1');
  const full = await backedUp(t, place(), first);
  assert.equal(full.method, 'full');
  assert.equal(full.reason, 'there is no backup of an earlier snapshot of the volume');
  await assertSame(volume.targetPath, full.image);

  write(volume, MIB, 4096);
  writeAt(volume.targetPath, 2 * MIB, Buffer.alloc(4096));
  write(volume, SIZE - 4096, 4096);
  const second = await orchestrator.snapshot(volume, 'chain-2');
  const delta = await backedUp(t, place(), second);
  assert.equal(delta.method, 'delta');
  assert.equal(delta.base_snapshot_id, first);
  assert.ok(BigInt(delta.range_bytes) < BigInt(MIB), delta.range_bytes);
  await assertSame(volume.targetPath, delta.image);

  await orchestrator.deleteSnapshot(first);
  await orchestrator.deleteSnapshot(second);
  write(volume, 3 * MIB, 8192);
  const third = await orchestrator.snapshot(volume, 'chain-3');
  const later = await backedUp(t, place(), third);
  assert.equal(later.base_snapshot_id, second);
  await assertSame(volume.targetPath, later.image);

  const again = await backedUp(t, place(), third);
  assert.equal(again.new, false);
  assert.equal(again.image, later.image);

  const manifest = JSON.parse(readFileSync(later.manifest, 'utf8'));
  assert.equal(manifest.snapshot.id, third);
  assert.equal(manifest.base.snapshotId, second);
  assert.deepEqual(await orchestrator.volumeIds(), [volume.id]);
});

test('--base none makes a full backup, --base ID takes that base, and a base without a backup is refused', async (t) => {
  const { orchestrator } = running;
  const volume = await newVolume();
  write(volume, 0, MIB);
  const snapshots: string[] = [];
  for (const name of ['choice-1', 'choice-2', 'choice-3', 'choice-4']) {
    write(volume, random.below(64) * 4096, 4096);
    snapshots.push(await orchestrator.snapshot(volume, name));
  }
  const [first, second, third, fourth] = snapshots as [string, string, string, string];
  await backedUp(t, place(), first);
  const full = await backedUp(t, place(), second, '--base', 'none');
  assert.deepEqual([full.method, full.reason], ['full', null]);
  const chosen = await backedUp(t, place(), fourth, '--base', first, '--grain', '64Ki');
  assert.equal(chosen.base_snapshot_id, first);
  assert.equal(BigInt(chosen.range_bytes) % 65536n, 0n);
  await assertSame(volume.targetPath, chosen.image);
  const { code, stderr } = await runBackup(t, place(), third, '--base', 'none-such');
  assert.equal(code, 4);
  assert.match(stderr, /has no backup of snapshot none-such of volume/);
});

test('a base whose image is gone is not used, and the manifest says so', async (t) => {
  const { orchestrator } = running;
  const volume = await newVolume();
  write(volume, 0, MIB);
  const lost = await backedUp(t, place(), await orchestrator.snapshot(volume, 'lost-1'));
  write(volume, MIB, MIB);
  const based = await backedUp(t, place(), await orchestrator.snapshot(volume, 'lost-2'));
  rmSync(lost.image);
  write(volume, 2 * MIB, MIB);
  const full = await backedUp(t, place(), await orchestrator.snapshot(volume, 'lost-3'));
  assert.equal(full.method, 'full');
  assert.ok(full.reason?.includes(`${lost.image}: the image is missing`), full.reason ?? '');
  await assertSame(volume.targetPath, full.image);
  const names = readdirSync(join(based.image, '..'));
  assert.deepEqual(
    names.filter((name) => name.includes('.partial')),
    [],
  );
});

for (const kind of isNightly ? ['raw volume', 'file system'] : ['raw volume']) {
  test(`every backup of a ${kind} holds what the volume held, over its history`, async () => {
    const { orchestrator, plugin, workspace } = running;
    for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
    await orchestrator.remove(...volumes.splice(0));
    const options = {
      orchestrator,
      socketPath: plugin.endpoint.slice('unix://'.length),
      name: kind,
      random: seededRandom(`backup-history-${kind}`),
      directory: workspace.path('history'),
      use: kind === 'raw volume' ? RAW : fileSystemUse(workspace.path('mounted')),
      sizeBytes: 24 * MIB,
      growthBytes: 4 * MIB,
    };
    await proveBackups(options, RETAINED, isNightly ? [11, 8, 4] : [2, 1, 1]);
  });
}
