/** Two calls at once on the node for one volume, for every pair of them that can conflict. */
import assert from 'node:assert/strict';
import { after } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import { blockCapability, CsiClient, mountCapability } from '../support/csi-client.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { startReport } from '../support/plugin-log.js';
import { statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';
import { loopsBelow, mountsBelow } from '../support/workspace.js';

const ROUNDS = 8;

const running = runPlugin('concurrency', {
  pools: { main: 'xfs' },
  prepare: () => {
    second = new CsiClient(running.plugin.endpoint);
    other = new Orchestrator(running.workspace, () => second);
    own = held();
  },
});
const { orchestrator } = running;
let second: CsiClient;
let other: Orchestrator;
let own: { mounts: string[]; loops: string[] };
after(() => second?.close());

function held(): { mounts: string[]; loops: string[] } {
  const { directory } = running.workspace;
  return { mounts: mountsBelow(directory), loops: loopsBelow(directory) };
}

interface Race {
  /** Published before; staged only, unless it is false. */
  isStaged: boolean;
  calls(volume: HeldVolume): readonly [() => Promise<unknown>, () => Promise<unknown>];
  /** The statuses of both calls that are right besides OK and ABORTED. */
  also?: readonly (readonly StatusName[])[];
  /** What the volume has in the end, where one thing alone is right. */
  left?: (volume: HeldVolume) => void;
}

const another = ({ id }: HeldVolume): string => orchestrator.target(id, 'another');
const isStagedOnce = (): void => assert.equal(held().loops.length, own.loops.length + 1);

const RACES: Readonly<Record<string, Race>> = {
  'two calls stage a volume once': {
    isStaged: false,
    calls: (volume) => [() => orchestrator.stage(volume), () => other.stage(volume)],
    left: isStagedOnce,
  },
  'staging and unstaging leave a volume staged or not': {
    isStaged: false,
    calls: (volume) => [() => orchestrator.stage(volume), () => other.unstage(volume)],
  },
  'two calls publish a volume once': {
    isStaged: true,
    calls: (volume) => [() => orchestrator.publish(volume), () => other.publish(volume)],
    left: ({ targetPath }) =>
      assert.equal(held().mounts.filter((path) => path === targetPath).length, 1),
  },
  'publishing at two paths publishes a volume at one': {
    isStaged: true,
    calls: (volume) => [
      () => orchestrator.publish(volume),
      () => other.publish(volume, { target: another(volume) }),
    ],
    also: [['FAILED_PRECONDITION'], ['FAILED_PRECONDITION']],
    left: (volume) => {
      const targets = [volume.targetPath, another(volume)];
      assert.equal(held().mounts.filter((path) => targets.includes(path)).length, 1);
    },
  },
  'publishing and unpublishing leave a volume published or not': {
    isStaged: true,
    calls: (volume) => [() => orchestrator.publish(volume), () => other.unpublish(volume)],
  },
  'a volume is staged or deleted, and never staged without its file': {
    isStaged: false,
    calls: (volume) => [() => orchestrator.stage(volume), () => other.delete(volume)],
    also: [['NOT_FOUND'], ['FAILED_PRECONDITION']],
  },
};

for (const [title, { isStaged, calls, also = [], left }] of Object.entries(RACES)) {
  test(`at once, ${title}`, async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const capability = round % 2 === 0 ? blockCapability() : mountCapability('ext4');
      const spec = { capability, sizeBytes: 16 * MIB };
      const volume = await orchestrator.create(`volume ${round}`, spec);
      if (isStaged) await orchestrator.stage(volume);
      const [one, two] = calls(volume);
      const statuses = await Promise.all([statusOf(one()), statusOf(two())]);
      for (const [index, status] of statuses.entries()) {
        const right = ['OK', 'ABORTED', ...(also[index] ?? [])];
        assert.ok(right.includes(status), `${status}, where ${right.join(' or ')} was expected`);
      }
      const succeeded = statuses.filter((status) => status === 'OK').length;
      assert.ok(also.length > 1 ? succeeded === 1 : succeeded >= 1, statuses.join());
      left?.(volume);
      await orchestrator.unpublish(volume, another(volume));
      await orchestrator.takeDown(volume);
      await orchestrator.delete(volume);
      assert.deepEqual(held(), own);
      assert.deepEqual(await orchestrator.volumeIds(), []);
    }
  });
}

test('after all tests the plugin finds nothing to complete, roll back or report', async () => {
  await running.restart();
  const { finished, undone, differences } = startReport(running.plugin.log);
  assert.deepEqual(
    { finished, undone, differences },
    { finished: [], undone: [], differences: [] },
  );
});
