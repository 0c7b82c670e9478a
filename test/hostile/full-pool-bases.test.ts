/** A reflink pool that is filled to the brim while it holds deleted snapshots: writers come first. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Plugin } from '../support/plugin.js';
import { TestVolume } from '../support/test-volume.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const MIB = 1 << 20;
const POOL_MIB = 1536;
const VOLUME_MIB = 440;

let workspace: Workspace;
let plugin: Plugin;
let pool: string;

before(async () => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('full-pool-bases');
  pool = makePoolFileSystem(workspace, 'xfs', POOL_MIB);
  plugin = await Plugin.start(workspace, { pools: `main=${pool}` });
});

after(async () => {
  if (skipUnlessRoot !== false) return;
  try {
    await plugin?.stop();
  } finally {
    workspace.dispose();
  }
});

/** Overwrites the whole volume past the page cache, as fast as the disk takes it. */
function overwrite({ targetPath }: TestVolume): string {
  const to = [`of=${targetPath}`, 'bs=1M', `count=${VOLUME_MIB}`, 'oflag=direct', 'conv=notrunc'];
  const { status, stderr } = spawnSync('dd', ['if=/dev/urandom', ...to], { encoding: 'utf8' });
  return status === 0 ? 'written' : stderr;
}

async function publishedVolume(): Promise<TestVolume> {
  const volume = await TestVolume.create(plugin.client, workspace, { sizeBytes: VOLUME_MIB * MIB });
  await volume.publish();
  return volume;
}

test('writers of a pool that fills up never meet ENOSPC while a retained base holds blocks', {
  skip: skipUnlessRoot,
}, async () => {
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
  while (!plugin.log.includes(`blocks of the deleted snapshot ${bases[0]}`)) await delay(20);
  const later = await first.snapshot();
  await assert.rejects(
    plugin.client.delta(bases[0] ?? '', later.id),
    /running out of space.*full backup/,
  );
  for (const volume of [first, second]) await volume.unpublish();
  await first.deleteSnapshot(later.id);
  for (const volume of [first, second]) await volume.delete();
  assert.equal(spawnSync('ls', [join(pool, 'snapshots')], { encoding: 'utf8' }).stdout, '');
});
