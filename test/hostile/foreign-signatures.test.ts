/** Raw volumes with a partition table inside: the kernel does not scan it. For udev see test/guest. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { useNode } from '../integration/node-fixture.js';
import { partitionTable } from '../support/foreign-signatures.js';
import { test as rootTest } from '../support/running-plugin.js';

const node = useNode('foreign-signatures');

rootTest('H5: the kernel is never asked to scan a volume for partitions', async () => {
  const { volumeId } = await node.makeVolume();
  const path = node.workspace.path('xfs.pool', 'volumes', volumeId);
  writeFileSync(path, partitionTable(), { flag: 'r+' });
  const { devicePath } = await node.backend.attach(volumeId, { readOnly: false });
  const device = basename(devicePath);
  assert.equal(readFileSync(`/sys/block/${device}/loop/partscan`, 'utf8'), '0\n');
  const parts = readdirSync(`/sys/block/${device}`).filter((name) => name.startsWith(`${device}p`));
  assert.deepEqual(parts, []);
  await node.backend.detach(volumeId);
});
