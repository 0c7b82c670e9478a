/**
 * Velero's block data mover against a thin pool: every night after the first is incremental, though its base is deleted, and a restore
 * in place begins at a deleted snapshot too. ../integration/backup/velero.test.ts has the pools of files.
 */
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import type { VolumeKind } from '../support/contents.js';
import { isNightly } from '../support/nightly.js';
import { PluginHere } from '../support/plugin-here.js';
import { seededRandom } from '../support/random.js';
import { RunningPluginBy } from '../support/running-plugin.js';
import { MOMENTS, type Moment, VeleroMover } from '../support/velero-mover.js';
import { proveNights } from '../support/velero-nights.js';
import { isGuest, nightlyTest, test } from './guest.js';

const running = new RunningPluginBy(PluginHere.start);
const { orchestrator } = running;
before(async () => {
  if (isGuest) await running.setUp('velero', { pools: { main: 'thin' } });
});
after(() => running.tearDown());

const CASES: readonly (readonly [VolumeKind, 1 | 2])[] = [
  ['ext4', 1],
  ['block', 2],
  ['xfs', 2],
  ['btrfs', 1],
];

for (const [kind, grownAfter] of CASES) {
  const volumes = kind === 'block' ? 'a raw volume' : `a volume with ${kind}`;
  const register = kind === 'ext4' ? test : nightlyTest;
  register(
    `Velero backs up ${volumes} on a thin pool by its changes and restores it in place, grown after backup ${grownAfter}`,
    async (t) => {
      const seen = new Set<Moment>();
      const meanwhile = async (moment: Moment): Promise<void> => {
        const isFirst = seen.size !== seen.add(moment).size;
        // Once, at night at each moment.
        if (isNightly || (isFirst && moment === 'the snapshot is deleted')) await running.restart();
      };
      const mover = new VeleroMover({
        orchestrator,
        client: () => running.client,
        createVolume: (request) => running.client.controller.CreateVolume(request),
        parameters: {},
        readOnly: grownAfter === 1,
        meanwhile,
      });
      const create = (spec: object) => orchestrator.create(kind, spec);
      const random = seededRandom(`velero thin ${kind}`);
      t.diagnostic(await proveNights({ kind, grownAfter, random, orchestrator, create, mover }));
      assert.deepEqual([...seen], MOMENTS);
      assert.deepEqual([await orchestrator.volumeIds(), await orchestrator.snapshotIds()], [[], []]);
    },
  );
}
