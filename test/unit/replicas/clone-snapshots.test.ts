/** The snapshots that clones on other nodes are made from: one for each name, gone an hour after the last use. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SnapshotRecord } from '../../../src/driver/catalogue/records.js';
import { CloneSnapshots } from '../../../src/driver/replicas/clone-snapshots.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';

const HOUR_MS = 3_600_000;

test('a snapshot for a clone is taken once for each name, and goes an hour after its last transfer', async () => {
  const volume = volumeRecord();
  const held = new Map<string, SnapshotRecord>();
  let clock = Date.now();
  let usedMs = 0;
  const clones = new CloneSnapshots({
    catalogue: { snapshotsForClones: async () => [...held.values()] },
    snapshots: {
      create: async ({ name, sourceVolumeId, parameters }) => {
        assert.equal(sourceVolumeId, volume.volumeId);
        const creationTimeNs = BigInt(clock) * 1_000_000n;
        const taken = { ...snapshotRecord(volume, { name, parameters, creationTimeNs }), sequence: 1n };
        held.set(name, held.get(name) ?? taken);
        return held.get(name) ?? taken;
      },
      delete: async (snapshotId) => {
        for (const [name, snapshot] of held) if (snapshot.snapshotId === snapshotId) held.delete(name);
      },
    },
    transfers: { lastUse: () => usedMs },
    logger: { warn: () => undefined },
    now: () => clock,
  });
  const take = (name: string) => clones.take(volume.volumeId, name, Infinity, new AbortController().signal);
  const first = await take('a');
  assert.equal((await take('a')).snapshotId, first.snapshotId);
  assert.notEqual((await take('b')).snapshotId, first.snapshotId);
  assert.deepEqual(first.parameters, { cloneName: 'a' });
  clock += HOUR_MS - 1;
  await clones.round();
  assert.equal(held.size, 2);
  usedMs = clock;
  clock += HOUR_MS - 1;
  await clones.round();
  assert.equal(held.size, 2);
  clock += 1;
  await clones.round();
  assert.equal(held.size, 0);
});
