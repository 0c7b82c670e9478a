/** Lists of a node with many snapshots: what is read and made for an answer, not how long that takes. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { type ResponseOf, ResponseParts } from '../../../src/base/csi/service.js';
import type { ControllerDependencies } from '../../../src/driver/controller/controller-dependencies.js';
import { listSnapshots, listVolumes } from '../../../src/driver/controller/lists.js';
import { noContext, received } from '../../support/received-request.js';
import { snapshotRecord, volumeRecord } from '../../support/records.js';
import { type Managers, openManagers } from '../volumes/manager-fixture.js';
import { controllerOf } from './controller-fixture.js';

const SNAPSHOTS = 1300;
const VOLUMES = 13;

let managers: Managers;
let deps: ControllerDependencies;
/** Rows that came from the catalogue's thread, call by call. */
let read: number[];
let snapshotIds: string[];
let volumeIds: string[];

before(async () => {
  managers = await openManagers();
  const { catalogue } = managers.deps;
  const counted = <A extends unknown[], R>(call: (...args: A) => Promise<R[]>) => {
    return async (...args: A): Promise<R[]> => {
      const rows = await call(...args);
      read.push(rows.length);
      return rows;
    };
  };
  deps = controllerOf(managers, {
    catalogue: {
      ...catalogue,
      listSnapshots: counted(catalogue.listSnapshots),
      listVolumes: counted(catalogue.listVolumes),
    },
  });
  const volumes = Array.from({ length: VOLUMES }, () => volumeRecord());
  for (const volume of volumes) await catalogue.insertVolume(volume);
  const records = Array.from({ length: SNAPSHOTS }, (_, index) =>
    snapshotRecord(volumes[index % VOLUMES] ?? volumeRecord()),
  );
  await Promise.all(records.map((record) => catalogue.insertSnapshot(record)));
  snapshotIds = records.map(({ snapshotId }) => snapshotId).sort();
  volumeIds = volumes.map(({ volumeId }) => volumeId).sort();
});
beforeEach(() => {
  read = [];
});
after(() => managers.close());

async function partsOf<Response>(answer: Response | ResponseParts<Response>): Promise<Response[]> {
  if (!(answer instanceof ResponseParts)) return [answer];
  const parts: Response[] = [];
  for await (const part of answer.parts) parts.push(part);
  return parts;
}

async function snapshotParts(fields: object): Promise<ResponseOf<'ListSnapshots'>[]> {
  return partsOf(await listSnapshots(deps, received('ListSnapshots', fields), noContext));
}

function idsOf(parts: readonly ResponseOf<'ListSnapshots'>[]): (string | undefined)[] {
  return parts.flatMap(({ entries = [] }) => entries.map(({ snapshot }) => snapshot?.snapshot_id));
}

test('H13: a list of one snapshot reads one row, and one of a source the rows of that', async () => {
  const [snapshotId = ''] = snapshotIds;
  const one = await snapshotParts({ snapshot_id: snapshotId });
  assert.deepEqual([idsOf(one), read], [[snapshotId], [1]]);
  read = [];
  const source = await snapshotParts({ source_volume_id: volumeIds[3] });
  assert.deepEqual([idsOf(source).length, read], [SNAPSHOTS / VOLUMES, [SNAPSHOTS / VOLUMES]]);
  const both = { snapshot_id: snapshotId, source_volume_id: 'vol-other' };
  assert.deepEqual(idsOf(await snapshotParts(both)), []);
});

test('H13: a page reads its own rows and one more, and the pages make the list', async () => {
  const found: (string | undefined)[] = [];
  let token = '';
  do {
    const [page = {}] = await snapshotParts({ max_entries: 100, starting_token: token });
    found.push(...idsOf([page]));
    token = String(page.next_token);
  } while (token !== '');
  assert.deepEqual(found, snapshotIds);
  assert.ok(Math.max(...read) <= 101, `${Math.max(...read)} rows at once`);
  assert.equal(read.length, SNAPSHOTS / 100);
});

test('H13: a whole list, and a page as long, is made in parts that add up to it', async () => {
  for (const max_entries of [0, SNAPSHOTS, 2 ** 31 - 1]) {
    const parts = await snapshotParts({ max_entries });
    assert.deepEqual(idsOf(parts), snapshotIds);
    for (const part of parts) {
      assert.ok((part.entries ?? []).length <= 500);
      assert.equal(part.next_token, '');
    }
  }
  const most = await snapshotParts({ max_entries: SNAPSHOTS - 1 });
  assert.deepEqual(idsOf(most), snapshotIds.slice(0, -1));
  const tokens = most.map((part) => part.next_token);
  assert.deepEqual(tokens.slice(0, -1), ['', '']);
  const [rest = {}] = await snapshotParts({ starting_token: tokens.at(-1) });
  assert.deepEqual([idsOf([rest]), rest.next_token], [snapshotIds.slice(-1), '']);
});

test('H13: a list of volumes is read by pages, and an empty list is answered', async () => {
  const [page = {}] = await partsOf(await listVolumes(deps, received('ListVolumes', { max_entries: 5 }), noContext));
  assert.equal(page.entries?.length, 5);
  assert.deepEqual(read, [6]);
  const request = received('ListSnapshots', { snapshot_id: 'snap-none' });
  const none = await listSnapshots(deps, request, noContext);
  assert.deepEqual(none, { entries: [], next_token: '' });
});
