/** How often staging reads the list of mounts, which grows with the volumes of a node. */
import assert from 'node:assert/strict';
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { test as rootTest } from '../support/running-plugin.js';
import { blockCapability, mountCapability, useNode, XFS_SIZE } from './node-fixture.js';

const node = useNode('node-mountinfo');

/** How often /proc/self/mountinfo is read while `work` runs. */
async function readsDuring(work: () => Promise<unknown>): Promise<number> {
  const { readFile } = fs;
  let reads = 0;
  const counting = ((...args: Parameters<typeof readFile>) => {
    if (args[0] === '/proc/self/mountinfo') reads += 1;
    return readFile(...args);
  }) as typeof readFile;
  fs.readFile = counting;
  syncBuiltinESMExports();
  try {
    await work();
  } finally {
    fs.readFile = readFile;
    syncBuiltinESMExports();
  }
  return reads;
}

for (const fsType of ['ext4', 'xfs']) {
  rootTest(
    `NodeStageVolume of ${fsType} reads the mounts at its beginning, then after each change`,
    async () => {
      const volume = await node.makeVolume({ sizeBytes: XFS_SIZE });
      const capability = mountCapability(fsType);
      for (const round of ['formatted', 'mounted']) {
        const stage = () => node.stage(volume, capability);
        // At the beginning, with the new device, with the new mount.
        assert.equal(await readsDuring(stage), 3, round);
        assert.equal(await readsDuring(stage), 1, `${round}, repeated`);
        await node.unstage(volume);
      }
    },
  );
}

rootTest('NodeStageVolume of a raw block volume reads the mounts once', async () => {
  const volume = await node.makeVolume();
  for (const round of ['staged', 'repeated']) {
    assert.equal(await readsDuring(() => node.stage(volume, blockCapability())), 1, round);
  }
  await node.unstage(volume);
});
