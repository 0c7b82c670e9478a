/**
 * Velero's block data mover against pools on XFS and btrfs: every night after the first is incremental, though its base is deleted,
 * and a restore in place begins at a deleted snapshot too. docs/velero.md promises it; ../../guest/velero.test.ts has thin pools.
 */
import assert from 'node:assert/strict';
import type { VolumeKind } from '../../support/contents.js';
import { isNightly, oneOfEach } from '../../support/nightly.js';
import { seededRandom } from '../../support/random.js';
import { NOTHING, runPlugin, test } from '../../support/running-plugin.js';
import { MOMENTS, type Moment, VeleroMover } from '../../support/velero-mover.js';
import { proveNights } from '../../support/velero-nights.js';

const running = runPlugin('velero', { pools: { xfs: 'xfs', btrfs: 'btrfs' } });
const { orchestrator } = running;

interface Case {
  pool: 'xfs' | 'btrfs';
  kind: VolumeKind;
  grownAfter: 1 | 2;
  readOnly: boolean;
}

/** When the plugin is killed in the second night of a plain run; in a nightly one it ends at each moment. */
const KILLED = { xfs: 'the claim is published', btrfs: 'the snapshot is deleted' } as const;

/** A plain run has the first case of each pool. */
const CASES: readonly Case[] = [
  { pool: 'xfs', kind: 'ext4', grownAfter: 1, readOnly: true },
  { pool: 'xfs', kind: 'block', grownAfter: 1, readOnly: true },
  { pool: 'xfs', kind: 'xfs', grownAfter: 2, readOnly: false },
  { pool: 'xfs', kind: 'btrfs', grownAfter: 2, readOnly: false },
  { pool: 'btrfs', kind: 'block', grownAfter: 2, readOnly: false },
  { pool: 'btrfs', kind: 'ext4', grownAfter: 2, readOnly: false },
  { pool: 'btrfs', kind: 'xfs', grownAfter: 1, readOnly: true },
  { pool: 'btrfs', kind: 'btrfs', grownAfter: 1, readOnly: true },
];

for (const { pool, kind, grownAfter, readOnly } of oneOfEach(CASES, ({ pool: name }) => name)) {
  const volumes = kind === 'block' ? 'a raw volume' : `a volume with ${kind}`;
  test(`Velero backs up ${volumes} on ${pool} by its changes and restores it in place, grown after backup ${grownAfter}`, async (t) => {
    const random = seededRandom(`velero ${pool} ${kind} ${grownAfter}`);
    const seen = new Map<Moment, number>();
    const meanwhile = async (moment: Moment): Promise<void> => {
      const times = (seen.get(moment) ?? 0) + 1;
      seen.set(moment, times);
      if (isNightly && random.below(2) === 0) await running.restart();
      else if (isNightly || (moment === KILLED[pool] && times === 2)) await running.crash();
    };
    const mover = new VeleroMover({
      orchestrator,
      client: () => running.client,
      createVolume: (request) => running.client.controller.CreateVolume(request),
      parameters: { pool },
      readOnly,
      meanwhile,
    });
    const create = (spec: object) => orchestrator.create(`${pool} ${kind}`, { ...spec, parameters: { pool } });
    t.diagnostic(await proveNights({ kind, grownAfter, random, orchestrator, create, mover }));
    assert.deepEqual([...seen.keys()], MOMENTS);
    assert.deepEqual(running.held(), NOTHING);
    assert.deepEqual([await orchestrator.volumeIds(), await orchestrator.snapshotIds()], [[], []]);
  });
}
