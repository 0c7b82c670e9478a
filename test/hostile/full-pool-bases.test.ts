/** A reflink pool that is filled to the brim while it holds deleted snapshots: writers come first. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { runPlugin, test } from '../support/running-plugin.js';
import { TestVolume } from '../support/test-volume.js';

const MIB = 1 << 20;
const POOL_MIB = 1536;
const VOLUME_MIB = 440;

const running = runPlugin('full-pool-bases', { pools: { main: 'xfs' }, poolSizeMiB: POOL_MIB });

/** Overwrites the whole volume past the page cache, as fast as the disk takes it. */
function overwrite({ targetPath }: TestVolume): string {
  const to = [`of=${targetPath}`, 'bs=1M', `count=${VOLUME_MIB}`, 'oflag=direct', 'conv=notrunc'];
  const { status, stderr } = spawnSync('dd', ['if=/dev/zero', ...to], { encoding: 'utf8' });
  return status === 0 ? 'written' : stderr;
}

async function publishedVolume(): Promise<TestVolume> {
  const { client, workspace } = running;
  const volume = await TestVolume.create(client, workspace, { sizeBytes: VOLUME_MIB * MIB });
  await volume.publish();
  return volume;
}

test('writers of a pool that fills up never meet ENOSPC while a retained base holds blocks', async () => {
  const pool = running.poolPath('main');
  const [first, second] = [await publishedVolume(), await publishedVolume()];
  const bases: string[] = [];
  for (const volume of [first, second]) {
    assert.equal(overwrite(volume), 'written');
    const snapshot = await volume.snapshot();
    await volume.deleteSnapshot(snapshot.id);
    bases.push(snapshot.id);
  }
  // Two volumes and the blocks of both deleted snapshots do not fit.
  for (const volume of [first, second, first]) assert.equal(overwrite(volume), 'written');
  const { bavail, bsize } = statfsSync(pool);
  assert.ok(bavail * bsize > 0);
  // Its lines arrive when this process is not waiting for dd.
  while (!running.plugin.log.includes(`blocks of the deleted snapshot ${bases[0]}`))
    await delay(20);
  const later = await first.snapshot();
  const delta = running.client.delta(bases[0] ?? '', later.id);
  await assert.rejects(delta, /running out of space.*full backup/);
  for (const volume of [first, second]) await volume.unpublish();
  await first.deleteSnapshot(later.id);
  for (const volume of [first, second]) await volume.delete();
  assert.equal(spawnSync('ls', [join(pool, 'snapshots')], { encoding: 'utf8' }).stdout, '');
});
