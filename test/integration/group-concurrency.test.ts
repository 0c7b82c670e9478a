/** Two concurrent calls on one group snapshot or its sources: each completes or is refused. */
import assert from 'node:assert/strict';
import type { StatusName } from '../../src/base/errors.js';
import type { Message } from '../support/csi-client.js';
import type { HeldGroup, HeldVolume } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';

const ROUNDS = 8;

const running = runPlugin('group-concurrency', {
  pools: { main: 'xfs' },
  prepare: async () => {
    const make = (name: string) => orchestrator.create(name);
    volumes = [await make('a'), await make('b'), await make('c')];
  },
});
const { orchestrator } = running;
let volumes: [HeldVolume, HeldVolume, HeldVolume];

/** Each call at once with the other, again and again; in either order. */
async function race(
  round: (number: number) => Promise<readonly [() => Promise<unknown>, () => Promise<unknown>]>,
  judge: (first: StatusName, second: StatusName) => Promise<void>,
): Promise<void> {
  for (let number = 0; number < ROUNDS; number += 1) {
    const [first, second] = await round(number);
    if (number % 2 === 0) {
      const [a, b] = await Promise.all([statusOf(first()), statusOf(second())]);
      await judge(a, b);
    } else {
      const [b, a] = await Promise.all([statusOf(second()), statusOf(first())]);
      await judge(a, b);
    }
  }
}

function assertAmong(status: StatusName, ...allowed: readonly StatusName[]): void {
  assert.ok(allowed.includes(status), `${status}, where ${allowed.join(' or ')} was expected`);
}

/** Group ids of the listed members, once for each member; the pool holds exactly what is listed. */
async function listedGroups(): Promise<string[]> {
  const { entries } = await running.client.controller.ListSnapshots({});
  const snapshots: Message[] = entries.map((entry: Message) => entry['snapshot']);
  assert.deepEqual(
    snapshotFiles(running.poolPath('main', 'snapshots')).sort(),
    snapshots.map((snapshot) => snapshot['snapshot_id']).sort(),
  );
  return snapshots.map((snapshot) => String(snapshot['group_snapshot_id']));
}

/** Every group that is listed has two members. */
async function assertWhole(): Promise<string[]> {
  const listed = await listedGroups();
  const groups = [...new Set(listed)];
  assert.equal(listed.length, 2 * groups.length, 'a group lacks a member');
  return groups;
}

async function clear(...groups: readonly HeldGroup[]): Promise<void> {
  for (const group of groups) await orchestrator.deleteGroup(group);
  assert.deepEqual(await listedGroups(), []);
}

test('GA3, G9: two concurrent calls with one name create one group', async () => {
  const sources = volumes.slice(0, 2);
  await race(
    async (number) => {
      const cut = () => orchestrator.groupSnapshot(sources, `twice ${number}`);
      return [cut, cut];
    },
    async (first, second) => {
      for (const status of [first, second]) assertAmong(status, 'OK', 'ABORTED');
      assert.ok([first, second].includes('OK'));
    },
  );
  assert.equal((await assertWhole()).length, ROUNDS);
  for (let number = 0; number < ROUNDS; number += 1) {
    await orchestrator.deleteGroup(await orchestrator.groupSnapshot(sources, `twice ${number}`));
  }
  await clear();
});

test('G9: groups that share a volume are taken one after the other or ABORTED, never in part', async () => {
  const [a, b, c] = volumes;
  const cut: HeldGroup[] = [];
  const keep = async (sources: HeldVolume[], name: string) => {
    cut.push(await orchestrator.groupSnapshot(sources, name));
  };
  await race(
    async (number) => [() => keep([a, b], `ab ${number}`), () => keep([b, c], `bc ${number}`)],
    async (first, second) => {
      for (const status of [first, second]) assertAmong(status, 'OK', 'ABORTED');
      assert.ok([first, second].includes('OK'));
      assert.equal((await assertWhole()).length, cut.length);
    },
  );
  await clear(...cut);
});

test('GD5, G9: two concurrent deletions of a group delete it', async () => {
  await race(
    async (number) => {
      const group = await orchestrator.groupSnapshot(volumes.slice(0, 2), `gone ${number}`);
      return [() => orchestrator.deleteGroup(group), () => orchestrator.deleteGroup(group)];
    },
    async (first, second) => {
      for (const status of [first, second]) assertAmong(status, 'OK', 'ABORTED');
      assert.ok([first, second].includes('OK'));
      assert.deepEqual(await listedGroups(), []);
    },
  );
});

test('GD4: while a member is restored its group is deleted completely or not at all', async () => {
  let group: HeldGroup | undefined;
  await race(
    async (number) => {
      group = await orchestrator.groupSnapshot(volumes.slice(0, 2), `restored ${number}`);
      const held = group;
      const snapshotId = held.snapshotIds[number % 2] ?? '';
      return [
        () => orchestrator.deleteGroup(held),
        () => orchestrator.create(`restored ${number}`, { snapshotId }),
      ];
    },
    async (deletion, restore) => {
      assertAmong(deletion, 'OK', 'ABORTED', 'FAILED_PRECONDITION');
      assertAmong(restore, 'OK', 'ABORTED', 'NOT_FOUND');
      assert.equal((await assertWhole()).length, deletion === 'OK' ? 0 : 1);
      if (group !== undefined) await clear(group);
    },
  );
});

test('DS3, GD5: deleting a group and one of its members concurrently deletes the group only', async () => {
  await race(
    async (number) => {
      const group = await orchestrator.groupSnapshot(volumes.slice(0, 2), `member ${number}`);
      return [
        () => orchestrator.deleteGroup(group),
        () => orchestrator.deleteSnapshot(group.snapshotIds[1] ?? ''),
      ];
    },
    async (deletion, alone) => {
      assertAmong(deletion, 'OK');
      // One that is gone is deleted.
      assertAmong(alone, 'INVALID_ARGUMENT', 'OK', 'ABORTED');
      assert.deepEqual(await listedGroups(), []);
    },
  );
});

test('GA5, G9: taking a group and deleting one of its sources concurrently gives a complete group or none', async () => {
  await race(
    async (number) => {
      const source = await orchestrator.create(`source ${number}`);
      return [
        () => orchestrator.groupSnapshot([volumes[0], source], `deleted source ${number}`),
        () => orchestrator.delete(source),
      ];
    },
    async (cut, deletion) => {
      assertAmong(cut, 'OK', 'ABORTED', 'NOT_FOUND');
      assertAmong(deletion, 'OK', 'ABORTED');
      await assertWhole();
    },
  );
});

test('G13: after all tests a restart finds nothing to complete, roll back or report', async () => {
  await running.restart();
  const { finished, undone, differences } = startReport(running.plugin.log);
  assert.deepEqual([finished, undone, differences], [[], [], []]);
});
