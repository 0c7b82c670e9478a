/** Two calls at once on one object: each completes or is refused, and what is left is whole. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { createRequest, type HeldGroup, type HeldVolume, MIB } from '../support/orchestrator.js';
import { assertRaced, statusOf } from '../support/refusal.js';

/** In either order, and twice. */
const ROUNDS = 4;

const running = runMemoryPlugin();
const { orchestrator } = running;

interface Race {
  /** Makes what the calls are about. */
  make(round: number): Promise<readonly [() => Promise<unknown>, () => Promise<unknown>]>;
  /** The statuses of both calls that are right besides OK and ABORTED. */
  also?: readonly (readonly StatusName[])[];
  /** One of them succeeds, and no more. */
  isExclusive?: boolean;
  /** How many there must be afterwards, the three volumes of each round included. */
  left?: (statuses: readonly StatusName[]) => Left;
}
interface Left {
  volumes?: number;
  snapshots?: number;
}
const pair = (call: () => Promise<unknown>) => [call, call] as const;
const group = (round: number): Promise<HeldGroup> => orchestrator.groupSnapshot(trio.slice(0, 2), `group ${round}`);
let trio: HeldVolume[] = [];

const RACES: Readonly<Record<string, Race>> = {
  'CV4: two calls with one name create one volume': {
    make: async (round) => pair(() => orchestrator.create(`one ${round}`)),
    left: () => ({ volumes: 4 }),
  },
  'CV4: two calls with one name and two sizes create one volume': {
    make: async (round) => [
      () => orchestrator.create(`sizes ${round}`, { sizeBytes: MIB }),
      () => orchestrator.create(`sizes ${round}`, { sizeBytes: 2 * MIB }),
    ],
    also: [['ALREADY_EXISTS'], ['ALREADY_EXISTS']],
    isExclusive: true,
    left: () => ({ volumes: 4 }),
  },
  'creating and deleting a volume leaves it complete or deleted': {
    make: async (round) => {
      const volume = await orchestrator.create(`comes ${round}`);
      return [() => orchestrator.delete(volume), () => orchestrator.create(`comes ${round}`)];
    },
  },
  'two deletions delete a volume': {
    make: async (round) => {
      const volume = await orchestrator.create(`gone ${round}`);
      return pair(() => orchestrator.delete(volume));
    },
    left: () => ({ volumes: 3 }),
  },
  'two expansions give a volume its size': {
    make: async (round) => {
      const volume = await orchestrator.create(`grows ${round}`);
      return pair(() => orchestrator.expand(volume, 16 * MIB));
    },
  },
  'two calls with one name create one snapshot': {
    make: async (round) => pair(() => orchestrator.snapshot(trio[0] as HeldVolume, `one ${round}`)),
    left: () => ({ snapshots: 1 }),
  },
  'two calls with one name for two volumes create one snapshot': {
    make: async (round) => [
      () => orchestrator.snapshot(trio[0] as HeldVolume, `taken ${round}`),
      () => orchestrator.snapshot(trio[1] as HeldVolume, `taken ${round}`),
    ],
    also: [['ALREADY_EXISTS'], ['ALREADY_EXISTS']],
    isExclusive: true,
    left: () => ({ snapshots: 1 }),
  },
  'taking a snapshot and deleting its volume leaves a complete snapshot or none': {
    make: async (round) => {
      const volume = await orchestrator.create(`taken ${round}`);
      return [() => orchestrator.snapshot(volume, `of taken ${round}`), () => orchestrator.delete(volume)];
    },
    also: [['NOT_FOUND'], []],
  },
  'restoring and deleting a snapshot creates a complete volume or none': {
    make: async (round) => {
      const snapshotId = await orchestrator.snapshot(trio[0] as HeldVolume, `origin ${round}`);
      return [
        () => orchestrator.create(`restored ${round}`, { snapshotId }),
        () => orchestrator.deleteSnapshot(snapshotId),
      ];
    },
    also: [['NOT_FOUND'], ['FAILED_PRECONDITION']],
  },
  'streaming and deleting a snapshot returns the whole list or an error': {
    make: async (round) => {
      const snapshotId = await orchestrator.snapshot(trio[0] as HeldVolume, `streamed ${round}`);
      return [
        async () => assert.equal((await running.client.allocated(snapshotId)).ranges.length, 1),
        () => orchestrator.deleteSnapshot(snapshotId),
      ];
    },
    also: [['NOT_FOUND'], ['FAILED_PRECONDITION']],
  },
  'two calls with one name create one group': {
    make: async (round) => pair(() => group(round)),
    left: () => ({ snapshots: 2 }),
  },
  'groups that share a volume are taken one after the other': {
    make: async (round) => [
      () => orchestrator.groupSnapshot(trio.slice(0, 2), `left ${round}`),
      () => orchestrator.groupSnapshot(trio.slice(1, 3), `right ${round}`),
    ],
  },
  'two deletions delete a group': {
    make: async (round) => {
      const made = await group(round);
      return pair(() => orchestrator.deleteGroup(made));
    },
    left: () => ({ snapshots: 0 }),
  },
  'a group of which a member is restored is deleted completely or not at all': {
    make: async (round) => {
      const made = await group(round);
      const snapshotId = made.snapshotIds[round % 2] ?? '';
      return [() => orchestrator.deleteGroup(made), () => orchestrator.create(`member ${round}`, { snapshotId })];
    },
    also: [['FAILED_PRECONDITION'], ['NOT_FOUND']],
    left: ([deletion]) => ({ snapshots: deletion === 'OK' ? 0 : 2 }),
  },
  'deleting a group and one of its members deletes the group only': {
    make: async (round) => {
      const made = await group(round);
      return [() => orchestrator.deleteGroup(made), () => orchestrator.deleteSnapshot(made.snapshotIds[1] ?? '')];
    },
    also: [[], ['INVALID_ARGUMENT']],
    left: () => ({ snapshots: 0 }),
  },
  'taking a group and deleting one of its sources gives a complete group or none': {
    make: async (round) => {
      const source = await orchestrator.create(`source ${round}`);
      return [
        () => orchestrator.groupSnapshot([trio[0] as HeldVolume, source], `with ${round}`),
        () => orchestrator.delete(source),
      ];
    },
    also: [['NOT_FOUND'], []],
  },
};

/** The pool holds what is listed, each name and each member of a group once; all of it can be deleted. */
async function assertWhole(left: Left): Promise<void> {
  const { controller } = running.client;
  const { storage } = running.backend();
  const volumes = await orchestrator.volumeIds();
  assert.deepEqual([...storage.volumes.keys()].sort(), volumes.sort());
  const { entries } = await controller.ListSnapshots({});
  const snapshots: Message[] = entries.map((entry: Message) => entry['snapshot']);
  const ids = snapshots.map((snapshot) => snapshot['snapshot_id']);
  assert.deepEqual([...storage.snapshots.keys()].sort(), ids.sort());
  assert.equal(volumes.length, left.volumes ?? volumes.length);
  assert.equal(ids.length, left.snapshots ?? ids.length);
  for (const group of new Set(snapshots.map((snapshot) => snapshot['group_snapshot_id']))) {
    const members = snapshots.filter((snapshot) => snapshot['group_snapshot_id'] === group);
    const snapshotIds = members.map((member) => String(member['snapshot_id']));
    for (const id of snapshotIds) await running.client.allocated(id);
    if (group === '') {
      for (const id of snapshotIds) await orchestrator.deleteSnapshot(id);
    } else {
      assert.equal(members.length, 2, 'a group lacks a member');
      await orchestrator.deleteGroup({ id: group, snapshotIds });
    }
  }
  for (const volume_id of volumes) await controller.DeleteVolume({ volume_id });
}

for (const [title, { make, also = [], isExclusive = false, left = () => ({}) }] of Object.entries(RACES)) {
  test(`G15: at once, ${title}`, async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      trio = [];
      for (const name of ['a', 'b', 'c']) trio.push(await orchestrator.create(name));
      running.backend().write(trio[0]?.id ?? '', 0, Buffer.alloc(4096, 1));
      const calls = await make(round);
      // In either order.
      const order = round % 2 === 0 ? [0, 1] : [1, 0];
      const statuses: StatusName[] = [];
      await Promise.all(
        order.map(async (index) => {
          statuses[index] = await statusOf((calls[index] as () => Promise<unknown>)());
        }),
      );
      assertRaced(statuses, also, isExclusive);
      await assertWhole(left(statuses));
    }
  });
}

test('G13, G14: calls that miss their deadlines are repeated and end like one uninterrupted call', async () => {
  const { controller } = running.client;
  const request = createRequest('impatient');
  const seen = new Set<string>();
  for (const deadlineMs of [0, 1, 2, 4, 8, 16]) {
    seen.add(await statusOf(controller.CreateVolume(request, { deadlineMs })));
  }
  assert.ok(seen.has('DEADLINE_EXCEEDED'), [...seen].join());
  const { volume } = await controller.CreateVolume(request);
  assert.deepEqual((await controller.CreateVolume(request))['volume'], volume);
  assert.deepEqual(await orchestrator.volumeIds(), [volume.volume_id], 'made once');
  await controller.DeleteVolume({ volume_id: volume.volume_id });
});

test('G13: after all races a restart finds nothing to complete, roll back or report', async () => {
  await running.restart();
  const { differences, finished, undone } = running.reconciled ?? assert.fail();
  assert.deepEqual({ differences, finished, undone }, { differences: [], finished: [], undone: [] });
});
