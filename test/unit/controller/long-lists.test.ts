/** Lists of a node with many snapshots: what is read and made for an answer, not how long that takes. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import type { ControllerDependencies } from '../../../src/controller/dependencies.js';
import { listSnapshots, listVolumes } from '../../../src/controller/lists.js';
import { type ResponseMessage, ResponseParts } from '../../../src/csi/service.js';
import { VolumeManager } from '../../../src/volumes/volume-manager.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';
import { type Managers, openManagers } from '../volumes/manager-fixture.js';

const SNAPSHOTS = 1300;
const VOLUMES = 13;

let managers: Managers;
let deps: ControllerDependencies;
/** Rows that came from the catalogue's thread, call by call. */
let read: number[];
let snapshotIds: string[];
let volumeIds: string[];

beforeEach(async () => {
  managers = await openManagers();
  const { catalogue } = managers.deps;
  read = [];
  const counted = <A extends unknown[], R>(call: (...args: A) => Promise<R[]>) => {
    return async (...args: A): Promise<R[]> => {
      const rows = await call(...args);
      read.push(rows.length);
      return rows;
    };
  };
  deps = {
    ...managers.deps,
    catalogue: {
      ...catalogue,
      listSnapshots: counted(catalogue.listSnapshots),
      listVolumes: counted(catalogue.listVolumes),
    },
    config: {
      ...{ nodeId: 'test-node', topologyKey: 'blockdelta.csi/node', csiLevel: '1.12' },
      ...{ controllerPublish: false, maxVolumesPerNode: 0 },
    },
    volumes: new VolumeManager(managers.deps),
    snapshots: managers.snapshots,
    applySettings: async () => undefined,
  };
  const volumes = Array.from({ length: VOLUMES }, () => volumeRecord());
  for (const volume of volumes) await catalogue.insertVolume(volume);
  const records = Array.from({ length: SNAPSHOTS }, (_, index) =>
    snapshotRecord(volumes[index % VOLUMES] ?? volumeRecord()),
  );
  await Promise.all(records.map((record) => catalogue.insertSnapshot(record)));
  snapshotIds = records.map(({ snapshotId }) => snapshotId).sort();
  volumeIds = volumes.map(({ volumeId }) => volumeId).sort();
});
afterEach(() => managers.close());

async function partsOf(answer: ResponseMessage | ResponseParts): Promise<ResponseMessage[]> {
  if (!(answer instanceof ResponseParts)) return [answer];
  const parts: ResponseMessage[] = [];
  for await (const part of answer.parts) parts.push(part);
  return parts;
}

function idsOf(parts: readonly ResponseMessage[]): string[] {
  const entries = parts.flatMap(
    (part) => part['entries'] as { snapshot: { snapshot_id: string } }[],
  );
  return entries.map(({ snapshot }) => snapshot.snapshot_id);
}

test('H13: a list of one snapshot reads one row, and one of a source the rows of that', async () => {
  const [snapshotId = ''] = snapshotIds;
  const one = await partsOf(await listSnapshots(deps, { snapshot_id: snapshotId }));
  assert.deepEqual([idsOf(one), read], [[snapshotId], [1]]);
  read = [];
  const source = await partsOf(await listSnapshots(deps, { source_volume_id: volumeIds[3] }));
  assert.deepEqual([idsOf(source).length, read], [SNAPSHOTS / VOLUMES, [SNAPSHOTS / VOLUMES]]);
  const both = { snapshot_id: snapshotId, source_volume_id: 'vol-other' };
  assert.deepEqual(idsOf(await partsOf(await listSnapshots(deps, both))), []);
});

test('H13: a page reads its own rows and one more, and the pages make the list', async () => {
  const found: string[] = [];
  let token = '';
  do {
    const [page = {}] = await partsOf(
      await listSnapshots(deps, { max_entries: 100, starting_token: token }),
    );
    found.push(...idsOf([page]));
    token = String(page['next_token']);
  } while (token !== '');
  assert.deepEqual(found, snapshotIds);
  assert.ok(Math.max(...read) <= 101, `${Math.max(...read)} rows at once`);
  assert.equal(read.length, SNAPSHOTS / 100);
});

test('H13: a whole list, and a page as long, is made in parts that add up to it', async () => {
  for (const max_entries of [0, SNAPSHOTS, 2 ** 31 - 1]) {
    const parts = await partsOf(await listSnapshots(deps, { max_entries }));
    assert.deepEqual(idsOf(parts), snapshotIds);
    for (const part of parts) {
      assert.ok((part['entries'] as unknown[]).length <= 500);
      assert.equal(part['next_token'], '');
    }
  }
  const most = await partsOf(await listSnapshots(deps, { max_entries: SNAPSHOTS - 1 }));
  assert.deepEqual(idsOf(most), snapshotIds.slice(0, -1));
  const tokens = most.map((part) => part['next_token']);
  assert.deepEqual(tokens.slice(0, -1), ['', '']);
  const [rest = {}] = await partsOf(await listSnapshots(deps, { starting_token: tokens.at(-1) }));
  assert.deepEqual([idsOf([rest]), rest['next_token']], [snapshotIds.slice(-1), '']);
});

test('H13: a list of volumes is read by pages too, and an empty one is answered', async () => {
  const [page = {}] = await partsOf(await listVolumes(deps, { max_entries: 5 }));
  assert.equal((page['entries'] as unknown[]).length, 5);
  assert.deepEqual(read, [6]);
  const none = await listSnapshots(deps, { snapshot_id: 'snap-none' });
  assert.deepEqual(none, { entries: [], next_token: '' });
});
