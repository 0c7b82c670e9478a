/**
 * A pool on a bad day: its files cut short, written to or gone, its disk away, something mounted over it,
 * its space used up. Nothing is made of what is not whole, and the caller is told what has happened.
 */
import assert from 'node:assert/strict';
import { mkdirSync, rmdirSync, rmSync, truncateSync } from 'node:fs';
import { open } from 'node:fs/promises';
import type { Message } from '../support/csi-client.js';
import { setImmutable } from '../support/ioctls.js';
import { createRequest, type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

const KINDS = ['xfs', 'btrfs'] as const;
const running = runPlugin('bad-day', { pools: { xfs: 'xfs', btrfs: 'btrfs' }, poolSizeMiB: 512 });

const parameters = (pool: string): Record<string, string> => ({ pool });
const create = (pool: string, name: string): Promise<HeldVolume> =>
  running.orchestrator.create(`${pool} ${name}`, { parameters: parameters(pool) });
const volumeFile = (pool: string, { id }: HeldVolume): string =>
  running.poolPath(pool, 'volumes', id);
const snapshotFile = (pool: string, id: string): string => running.poolPath(pool, 'snapshots', id);

const snapshot = (volume: HeldVolume, name: string) =>
  running.client.controller.CreateSnapshot({ source_volume_id: volume.id, name });
const restore = (pool: string, snapshotId: string) =>
  running.client.controller.CreateVolume(
    createRequest(`restored from ${snapshotId}`, { snapshotId, parameters: parameters(pool) }),
  );
const idOf = (answer: Message): string => String(answer['snapshot'].snapshot_id);

/** Does something to a snapshot's file that its flag forbids, and sets the flag again. */
async function tamper(path: string, change: () => Promise<void> | void): Promise<void> {
  setImmutable(path, false);
  await change();
  setImmutable(path, true);
}

async function overwrite(path: string): Promise<void> {
  const file = await open(path, 'r+');
  await file.write(Buffer.alloc(4096, 0xee), 0, 4096, 4096);
  await file.sync();
  await file.close();
}

async function remove(volumes: HeldVolume[], snapshotIds: string[] = []): Promise<void> {
  for (const id of snapshotIds) {
    await running.client.controller.DeleteSnapshot({ snapshot_id: id });
  }
  for (const volume of volumes) await running.orchestrator.delete(volume);
}

for (const pool of KINDS) {
  test(`a snapshot that was cut short is not restored and not answered again, on ${pool}`, async () => {
    const volume = await create(pool, 'short snapshot');
    const id = idOf(await snapshot(volume, `${pool} short`));
    await tamper(snapshotFile(pool, id), () => truncateSync(snapshotFile(pool, id), 4 * MIB));
    const before = await running.orchestrator.volumeIds();
    await refused(restore(pool, id), 'FAILED_PRECONDITION', /4194304/);
    assert.deepEqual(await running.orchestrator.volumeIds(), before);
    await refused(snapshot(volume, `${pool} short`), 'FAILED_PRECONDITION', /4194304/);
    await remove([volume], [id]);
  });

  test(`a snapshot that was written to is not restored, its flag set again or not, on ${pool}`, async () => {
    const volume = await create(pool, 'written snapshot');
    const id = idOf(await snapshot(volume, `${pool} written`));
    const path = snapshotFile(pool, id);
    setImmutable(path, false);
    await refused(restore(pool, id), 'FAILED_PRECONDITION', /immutable/);
    setImmutable(path, true);
    const { volume: whole } = await restore(pool, id);
    await tamper(path, () => overwrite(path));
    await refused(
      running.client.controller.CreateVolume(
        createRequest(`${pool} second`, { snapshotId: id, parameters: parameters(pool) }),
      ),
      'FAILED_PRECONDITION',
      /written to after/,
    );
    await refused(
      running.client.allocated(id),
      'FAILED_PRECONDITION',
      /changed after it was taken/,
    );
    await remove([volume, running.orchestrator.hold('restored', whole)], [id]);
  });

  test(`a volume that was cut short is not cloned, staged, cut or grown, on ${pool}`, async () => {
    const { client, orchestrator } = running;
    const volume = await create(pool, 'short volume');
    const path = volumeFile(pool, volume);
    truncateSync(path, 4 * MIB);
    const clone = createRequest(`${pool} clone`, {
      volumeId: volume.id,
      parameters: parameters(pool),
    });
    const group = { name: `${pool} group`, source_volume_ids: [volume.id] };
    for (const call of [
      () => client.controller.CreateVolume(clone),
      () => orchestrator.stage(volume),
      () => snapshot(volume, `${pool} of a short one`),
      () => client.groups.CreateVolumeGroupSnapshot(group),
      () => orchestrator.expand(volume, 16 * MIB),
      () => create(pool, 'short volume'),
    ]) {
      await refused(call(), 'FAILED_PRECONDITION', /should have 8388608 bytes.*4194304/);
    }
    assert.deepEqual(await orchestrator.snapshotIds(), []);
    truncateSync(path, 8 * MIB);
    await remove([volume]);
  });

  test(`CreateSnapshot is not answered again for a snapshot whose file is gone, on ${pool}`, async () => {
    const volume = await create(pool, 'gone snapshot');
    const id = idOf(await snapshot(volume, `${pool} gone`));
    setImmutable(snapshotFile(pool, id), false);
    rmSync(snapshotFile(pool, id));
    await refused(snapshot(volume, `${pool} gone`), 'FAILED_PRECONDITION', /lost its file/);
    await remove([volume], [id]);
  });

  test(`an object whose deletion failed is told as it is until the deletion ends, on ${pool}`, async () => {
    const { client, orchestrator } = running;
    const [volume, other] = [await create(pool, 'kept'), await create(pool, 'stuck')];
    const id = idOf(await snapshot(volume, `${pool} stuck`));
    // A directory cannot be unlinked, so neither deletion can end.
    for (const path of [`${snapshotFile(pool, id)}.tmp`, `${volumeFile(pool, other)}.tmp`]) {
      mkdirSync(path);
    }
    await assert.rejects(client.controller.DeleteSnapshot({ snapshot_id: id }));
    await assert.rejects(client.controller.DeleteVolume({ volume_id: other.id }));
    const unfinished = /deletion has not ended; call Delete/;
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
    for (const path of [`${snapshotFile(pool, id)}.tmp`, `${volumeFile(pool, other)}.tmp`]) {
      rmdirSync(path);
    }
    await remove([volume, other], [id]);
    assert.deepEqual(await orchestrator.snapshotIds(), []);
  });
}
