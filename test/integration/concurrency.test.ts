/** Two concurrent calls on one object, for every pair of changing calls that can conflict. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import { after } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import { CsiClient, type Message } from '../support/csi-client.js';
import { createRequest, type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { snapshotFiles } from '../support/snapshot-files.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const ROUNDS = 8;
const BUSY: readonly StatusName[] = ['OK', 'ABORTED'];

const running = runPlugin('concurrency', { pools: { main: 'xfs' }, prepare: meet });
const { orchestrator } = running;
let second: CsiClient;
let other: Orchestrator;
let own: { mounts: string[]; loops: string[] };

function meet(): void {
  second = new CsiClient(running.plugin.endpoint);
  other = new Orchestrator(running.workspace, () => second);
  const { directory } = running.workspace;
  own = { mounts: mountsBelow(directory), loops: loopsBelow(directory) };
}
after(() => second?.close());

/** Two clients make the same call concurrently, repeatedly. */
async function race(
  round: (number: number) => Promise<readonly [() => Promise<unknown>, () => Promise<unknown>]>,
  judge: (statuses: [StatusName, StatusName], number: number) => Promise<void>,
): Promise<void> {
  for (let number = 0; number < ROUNDS; number += 1) {
    const [first, other] = await round(number);
    const statuses = await Promise.all([statusOf(first()), statusOf(other())]);
    await judge(statuses, number);
  }
}

function assertAmong(status: StatusName, allowed: readonly StatusName[]): void {
  assert.ok(allowed.includes(status), `${status}, where ${allowed.join(' or ')} was expected`);
}

function heldFiles(kind: 'volumes' | 'snapshots'): string[] {
  const directory = running.poolPath('main', kind);
  return (kind === 'snapshots' ? snapshotFiles(directory) : readdirSync(directory)).sort();
}

async function assertPoolIsListed(): Promise<void> {
  assert.deepEqual((await orchestrator.volumeIds()).sort(), heldFiles('volumes'));
  assert.deepEqual((await orchestrator.snapshotIds()).sort(), heldFiles('snapshots'));
}

/** Asserts that nothing is attached or mounted and that everything can be deleted. */
async function clear(): Promise<void> {
  for (const id of await orchestrator.snapshotIds()) await orchestrator.deleteSnapshot(id);
  for (const volume_id of await orchestrator.volumeIds()) {
    await running.client.controller.DeleteVolume({ volume_id });
  }
  await assertPoolIsListed();
  assert.deepEqual(mountsBelow(running.workspace.directory), own.mounts);
  assert.deepEqual(loopsBelow(running.workspace.directory), own.loops);
}

test('CV4, G15: two concurrent calls with one name create one volume', async () => {
  const ids = new Map<number, Set<string>>();
  await race(
    async (number) => {
      const found = new Set<string>();
      ids.set(number, found);
      const create = (caller: Orchestrator) => async () => {
        found.add((await caller.create(`one ${number}`)).id);
      };
      return [create(orchestrator), create(other)];
    },
    async (statuses, number) => {
      for (const status of statuses) assertAmong(status, BUSY);
      assert.ok(statuses.includes('OK'));
      assert.equal(ids.get(number)?.size, 1);
      assert.equal((await orchestrator.volumeIds()).length, number + 1);
      await assertPoolIsListed();
    },
  );
  await clear();
});

test('CV3, CV4: two concurrent calls with one name and two sizes create one volume', async () => {
  await race(
    async (number) => [
      () => orchestrator.create(`two sizes ${number}`, { sizeBytes: MIB }),
      () => other.create(`two sizes ${number}`, { sizeBytes: 2 * MIB }),
    ],
    async (statuses, number) => {
      assert.equal(statuses.filter((status) => status === 'OK').length, 1);
      for (const status of statuses) assertAmong(status, [...BUSY, 'ALREADY_EXISTS']);
      assert.equal((await orchestrator.volumeIds()).length, number + 1);
    },
  );
  await clear();
});

test('creating and deleting a volume concurrently leaves it complete or deleted', async () => {
  await race(
    async (number) => {
      const name = `come and go ${number % 2}`;
      const volume = await orchestrator.create(name);
      return [() => orchestrator.delete(volume), () => other.create(name)];
    },
    async (statuses) => {
      for (const status of statuses) assertAmong(status, BUSY);
      await assertPoolIsListed();
    },
  );
  await clear();
});

test('two concurrent deletions delete a volume', async () => {
  await race(
    async (number) => {
      const volume = await orchestrator.create(`twice gone ${number}`);
      return [() => orchestrator.delete(volume), () => other.delete(volume)];
    },
    async (statuses) => {
      for (const status of statuses) assertAmong(status, BUSY);
      assert.ok(statuses.includes('OK'));
      assert.deepEqual(await orchestrator.volumeIds(), []);
    },
  );
  await clear();
});

test('CS5: two concurrent calls with one name create one snapshot', async () => {
  const volume = await orchestrator.create('snapshotted');
  await race(
    async (number) => [
      () => orchestrator.snapshot(volume, `one ${number}`),
      () => other.snapshot(volume, `one ${number}`),
    ],
    async (statuses, number) => {
      for (const status of statuses) assertAmong(status, BUSY);
      assert.ok(statuses.includes('OK'));
      assert.equal((await orchestrator.snapshotIds()).length, number + 1);
      await assertPoolIsListed();
    },
  );
  await clear();
});

test('CS3: two concurrent calls with one name for two volumes create one snapshot', async () => {
  const volumes = [await orchestrator.create('left'), await orchestrator.create('right')];
  const [left, right] = volumes as [HeldVolume, HeldVolume];
  await race(
    async (number) => [
      () => orchestrator.snapshot(left, `taken ${number}`),
      () => other.snapshot(right, `taken ${number}`),
    ],
    async (statuses, number) => {
      assert.equal(statuses.filter((status) => status === 'OK').length, 1);
      for (const status of statuses) assertAmong(status, [...BUSY, 'ALREADY_EXISTS']);
      assert.equal((await orchestrator.snapshotIds()).length, number + 1);
    },
  );
  await clear();
});

test('taking a snapshot and deleting its volume concurrently leaves a complete snapshot or none', async () => {
  await race(
    async (number) => {
      const volume = await orchestrator.create(`taken and deleted ${number}`);
      return [
        () => orchestrator.snapshot(volume, `taken and deleted ${number}`),
        () => other.delete(volume),
      ];
    },
    async ([taking, deletion]) => {
      assertAmong(taking, [...BUSY, 'NOT_FOUND']);
      assertAmong(deletion, BUSY);
      assert.ok(taking === 'OK' || deletion === 'OK');
      await assertPoolIsListed();
      for (const id of await orchestrator.snapshotIds()) await running.client.allocated(id);
    },
  );
  await clear();
});

test('DS4: restoring and deleting a snapshot concurrently creates a complete volume or none', async () => {
  const volume = await orchestrator.create('origin');
  await race(
    async (number) => {
      const snapshotId = await orchestrator.snapshot(volume, `restored ${number}`);
      return [
        () => orchestrator.create(`restored ${number}`, { snapshotId }),
        () => other.deleteSnapshot(snapshotId),
      ];
    },
    async ([restore, deletion]) => {
      assertAmong(restore, [...BUSY, 'NOT_FOUND']);
      assertAmong(deletion, [...BUSY, 'FAILED_PRECONDITION']);
      assert.ok(restore === 'OK' || deletion === 'OK');
      await assertPoolIsListed();
    },
  );
  await clear();
});

test('SM28: streaming and deleting a snapshot concurrently returns the whole list or an error', async () => {
  const volume = await orchestrator.create('streamed');
  await race(
    async (number) => {
      const snapshotId = await orchestrator.snapshot(volume, `streamed ${number}`);
      return [
        async () => assert.deepEqual((await running.client.allocated(snapshotId)).ranges, []),
        () => other.deleteSnapshot(snapshotId),
      ];
    },
    async ([stream, deletion]) => {
      assertAmong(stream, [...BUSY, 'NOT_FOUND']);
      assertAmong(deletion, [...BUSY, 'FAILED_PRECONDITION']);
      assert.ok(stream === 'OK' || deletion === 'OK');
    },
  );
  await clear();
});

test('NS4, G15: two concurrent calls stage a volume once', async () => {
  await race(
    async (number) => {
      const volume = await newVolume(number);
      return [() => orchestrator.stage(volume), () => other.stage(volume)];
    },
    async (statuses) => {
      for (const status of statuses) assertAmong(status, BUSY);
      assert.ok(statuses.includes('OK'));
      assert.equal(loopsBelow(running.workspace.directory).length, own.loops.length + 1);
      await downAndDelete();
    },
  );
  await clear();
});

test('staging and unstaging a volume concurrently leaves it staged or not, and both can be repeated', async () => {
  await race(
    async (number) => {
      const volume = await newVolume(number);
      return [() => orchestrator.stage(volume), () => other.unstage(volume)];
    },
    async (statuses) => {
      for (const status of statuses) assertAmong(status, BUSY);
      await downAndDelete();
    },
  );
  await clear();
});

test('NP4, G15: two concurrent calls publish a volume once', async () => {
  await race(
    async (number) => {
      const volume = await newVolume(number);
      await orchestrator.stage(volume);
      return [() => orchestrator.publish(volume), () => other.publish(volume)];
    },
    async (statuses) => {
      for (const status of statuses) assertAmong(status, BUSY);
      assert.ok(statuses.includes('OK'));
      const { targetPath } = latest;
      const found = mountsBelow(running.workspace.directory).filter((path) => path === targetPath);
      assert.equal(found.length, 1);
      await downAndDelete();
    },
  );
  await clear();
});

test('NP4: publishing a volume at two paths concurrently publishes it at one', async () => {
  await race(
    async (number) => {
      const volume = await newVolume(number);
      await orchestrator.stage(volume);
      const target = orchestrator.target(volume.id, 'another');
      return [() => orchestrator.publish(volume), () => other.publish(volume, { target })];
    },
    async (statuses) => {
      assert.equal(statuses.filter((status) => status === 'OK').length, 1);
      for (const status of statuses) assertAmong(status, [...BUSY, 'FAILED_PRECONDITION']);
      await orchestrator.unpublish(latest, orchestrator.target(latest.id, 'another'));
      await downAndDelete();
    },
  );
  await clear();
});

test('publishing and unpublishing a volume concurrently leaves it published or not', async () => {
  await race(
    async (number) => {
      const volume = await newVolume(number);
      await orchestrator.stage(volume);
      return [() => orchestrator.publish(volume), () => other.unpublish(volume)];
    },
    async (statuses) => {
      for (const status of statuses) assertAmong(status, BUSY);
      await downAndDelete();
    },
  );
  await clear();
});

test('DV3: staging and deleting a volume concurrently never leaves a staged volume without its file', async () => {
  await race(
    async (number) => {
      const volume = await newVolume(number);
      return [() => orchestrator.stage(volume), () => other.delete(volume)];
    },
    async ([staging, deletion]) => {
      assertAmong(staging, [...BUSY, 'NOT_FOUND']);
      assertAmong(deletion, [...BUSY, 'FAILED_PRECONDITION']);
      assert.ok(!(staging === 'OK' && deletion === 'OK'));
      await downAndDelete();
    },
  );
  await clear();
});

test('after all tests the plugin finds nothing to complete, roll back or report', async () => {
  await running.restart();
  const { finished, undone, differences } = startReport(running.plugin.log);
  assert.deepEqual(
    { finished, undone, differences },
    { finished: [], undone: [], differences: [] },
  );
});

let latest: HeldVolume;

async function newVolume(number: number): Promise<HeldVolume> {
  const kind: Message = number % 2 === 0 ? { block: {} } : { mount: { fs_type: 'ext4' } };
  const capability = { ...kind, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
  const { name } = createRequest(`node ${number}`);
  latest = await orchestrator.create(name, { capability, sizeBytes: 16 * MIB });
  mkdirSync(latest.stagingPath, { recursive: true });
  return latest;
}

async function downAndDelete(): Promise<void> {
  await orchestrator.takeDown(latest);
  await orchestrator.delete(latest);
  await assertPoolIsListed();
}
