/**
 * Volumes made on one node from snapshots of another: three nodes in network namespaces, their own pools, a router, and cables
 * between them. Each volume is compared byte for byte with what the snapshot was taken of.
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { nodeKey, nodeKeyOf } from '../../../src/base/csi/handles.js';
import { blockDiscard } from '../../support/ioctls.js';
import { NodeCluster } from '../../support/node-cluster.js';
import { MIB } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { skipUnlessRoot } from '../../support/workspace.js';

const REMOTE = { remoteSources: 'true' };
const BLOCK = 4096;

let cluster: NodeCluster;

before(async () => {
  if (skipUnlessRoot === false) cluster = await NodeCluster.start('remote', { pools: ['xfs', 'btrfs', 'xfs-1k'] });
});
after(() => cluster?.dispose());

test('a raw volume is restored on another node, and its next snapshot costs what changed', {
  skip: skipUnlessRoot,
}, async () => {
  const random = seededRandom('raw volumes of other nodes');
  const [a, b] = [cluster.orchestrator(1), cluster.orchestrator(2)];
  const volume = await cluster.create(1, 'raw', { sizeBytes: 64 * MIB });
  const target = await a.bringUp(volume);
  const file = openSync(target, 'r+');
  writeSync(file, random.bytes(20 * MIB), 0, 20 * MIB, 5 * MIB);
  fsyncSync(file);
  const first = await a.snapshot(volume);
  const before = readFileSync(target);
  const restored = await cluster.create(2, 'raw on 2', { snapshotId: first, sizeBytes: 64 * MIB, parameters: REMOTE });
  assert.equal(nodeKeyOf(restored.id), nodeKey('node-2'));
  const path = await b.bringUp(restored);
  assert.ok(readFileSync(path).equals(before), 'the first snapshot');
  for (let index = 0; index < 20; index += 1) {
    writeSync(file, random.bytes(BLOCK), 0, BLOCK, random.below((64 * MIB) / BLOCK) * BLOCK);
  }
  fsyncSync(file);
  blockDiscard(file, 8 * MIB, 2 * MIB);
  closeSync(file);
  const second = await a.snapshot(volume);
  const now = readFileSync(target);
  const again = await cluster.create(2, 'raw on 2 again', {
    snapshotId: second,
    sizeBytes: 64 * MIB,
    parameters: REMOTE,
  });
  assert.ok(readFileSync(await b.bringUp(again)).equals(now), 'the second snapshot');
  const [, pulled] = /"base":"(snap-[^"]*)","bytes":"?(\d+)/.exec(cluster.plugin(2).log) ?? [];
  assert.equal(pulled, first, cluster.plugin(2).log);
  await b.remove(restored, again);
  await a.remove(volume);
});
