/**
 * Snapshots, clones and groups of file systems that another program has frozen, as the hooks of backup programs do, or
 * thaws meanwhile. What it has frozen stays frozen.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { specOf } from '../../support/contents.js';
import { Disturbance } from '../../support/disturbance.js';
import { freeze, thaw } from '../../support/freeze.js';
import { isNightly } from '../../support/nightly.js';
import type { HeldVolume } from '../../support/orchestrator.js';
import { refused, statusOf } from '../../support/refusal.js';
import { runPlugin, test } from '../../support/running-plugin.js';

const running = runPlugin('frozen-by-others', { pools: { main: 'xfs' }, poolSizeMiB: 3072 });
const { orchestrator } = running;

async function textIn(volume: HeldVolume): Promise<string> {
  const text = readFileSync(join(await orchestrator.bringUp(volume), 'file'), 'utf8');
  await orchestrator.remove(volume);
  return text;
}

for (const kind of ['ext4', 'xfs', 'btrfs'] as const) {
  test(`D8: a frozen ${kind} is snapshotted, cloned and grouped, and stays frozen`, async () => {
    const volume = await orchestrator.create(`frozen ${kind}`, specOf(kind));
    const other = await orchestrator.create(`other ${kind}`, specOf('ext4'));
    const target = await orchestrator.bringUp(volume);
    await orchestrator.bringUp(other);
    // Not synced.
    writeFileSync(join(target, 'file'), kind);
    freeze(target);
    const snapshotId = await orchestrator.snapshot(volume);
    const group = await orchestrator.groupSnapshot([other, volume], `group ${kind}`);
    const clone = { ...specOf(kind), volumeId: volume.id };
    const cloned = await orchestrator.create(`clone ${kind}`, clone);
    thaw(target);
    writeFileSync(join(target, 'file'), 'later', { flush: true });
    for (const id of [snapshotId, group.snapshotIds[1] ?? '']) {
      const spec = { ...specOf(kind), snapshotId: id };
      assert.equal(await textIn(await orchestrator.create(`from ${id}`, spec)), kind);
    }
    assert.equal(await textIn(cloned), kind);
    await orchestrator.deleteGroup(group);
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.remove(volume, other);
  });

  if (!isNightly && kind !== 'xfs') continue;
  test(`D8: a program that thaws ${kind} again and again lets snapshots be taken, or tried again`, async () => {
    const volume = await orchestrator.create(`thawed ${kind}`, specOf(kind));
    const target = await orchestrator.bringUp(volume);
    let thaws = 0;
    const thawing = new Disturbance(async () => {
      if (spawnSync('fsfreeze', ['-u', target], { stdio: 'ignore' }).status === 0) thaws += 1;
      await delay(1);
    });
    try {
      for (let round = 0; round < 10; round += 1) {
        const status = await statusOf(orchestrator.snapshot(volume, `thawed ${kind} ${round}`));
        assert.ok(status === 'OK' || status === 'ABORTED', status);
      }
    } finally {
      await thawing.stop();
    }
    writeFileSync(join(target, 'file'), `thawed ${thaws} times`, { flush: true });
    const snapshotId = await orchestrator.snapshot(volume, `thawed ${kind} 0`);
    const spec = { ...specOf(kind), snapshotId };
    await orchestrator.remove(await orchestrator.create(`of a thawed ${kind}`, spec), volume);
  });
}

test('D8: a group needs counters of writes where another program has frozen a volume', async () => {
  const volume = await orchestrator.create('uncounted', specOf('ext4'));
  const other = await orchestrator.create('counted', specOf('ext4'));
  const target = await orchestrator.bringUp(volume);
  await orchestrator.bringUp(other);
  const source = execFileSync('findmnt', ['-no', 'SOURCE', target], { encoding: 'utf8' }).trim();
  const counts = `/sys/block/${source.slice('/dev/'.length)}/queue/iostats`;
  writeFileSync(counts, '0');
  freeze(target);
  try {
    const group = orchestrator.groupSnapshot([volume, other], 'uncounted group');
    await refused(group, 'FAILED_PRECONDITION', new RegExp(`${volume.id}.*iostats`));
    await orchestrator.snapshot(volume);
  } finally {
    writeFileSync(counts, '1');
    thaw(target);
  }
  await orchestrator.remove(volume, other);
});
