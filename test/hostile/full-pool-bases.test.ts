/** A reflink pool that is filled to the brim while it holds deleted snapshots: writers come first. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { runPlugin, test } from '../support/running-plugin.js';

const POOL_MIB = 1536;
const VOLUME_MIB = 440;

const running = runPlugin('full-pool-bases', { pools: { main: 'xfs' }, poolSizeMiB: POOL_MIB });
const { orchestrator } = running;

/** Overwrites the whole volume past the page cache, as fast as the disk takes it. */
function overwrite({ targetPath }: HeldVolume): string {
  const to = [`of=${targetPath}`, 'bs=1M', `count=${VOLUME_MIB}`, 'oflag=direct', 'conv=notrunc'];
  const { status, stderr } = spawnSync('dd', ['if=/dev/zero', ...to], { encoding: 'utf8' });
  return status === 0 ? 'written' : stderr;
}

async function publishedVolume(name: string): Promise<HeldVolume> {
  const volume = await orchestrator.create(name, { sizeBytes: VOLUME_MIB * MIB });
  await orchestrator.bringUp(volume);
  return volume;
}

test('writers of a pool that fills up never meet ENOSPC while a retained base holds blocks', async () => {
  const pool = running.poolPath('main');
  const [first, second] = [await publishedVolume('first'), await publishedVolume('second')];
  const bases: string[] = [];
  for (const volume of [first, second]) {
    assert.equal(overwrite(volume), 'written');
    const snapshot = await orchestrator.snapshot(volume);
    await orchestrator.deleteSnapshot(snapshot);
    bases.push(snapshot);
  }
  // Two volumes and the blocks of both deleted snapshots do not fit.
  for (const volume of [first, second, first]) assert.equal(overwrite(volume), 'written');
  const { bavail, bsize } = statfsSync(pool);
  assert.ok(bavail * bsize > 0);
  // Its lines arrive when this process is not waiting for dd.
  while (!running.plugin.log.includes(`blocks of the deleted snapshot ${bases[0]}`)) await delay(20);
  const later = await orchestrator.snapshot(first);
  const delta = running.client.delta(bases[0] ?? '', later);
  await assert.rejects(delta, /running out of space.*full backup/);
  await orchestrator.deleteSnapshot(later);
  await orchestrator.remove(first, second);
  assert.equal(spawnSync('ls', [join(pool, 'snapshots')], { encoding: 'utf8' }).stdout, '');
});
