/** A raw volume of one node of a cluster, made on another node from each of two snapshots. */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { nodeKey, nodeKeyOf } from '../../src/base/csi/handles.js';
import { blockDiscard } from './ioctls.js';
import type { NodeCluster } from './node-cluster.js';
import { MIB } from './orchestrator.js';
import { seededRandom } from './random.js';

const REMOTE = { remoteSources: 'true' };
const BLOCK = 4096;

/**
 * Each volume is compared byte for byte with what the snapshot was taken of, and the second one is pulled from the first.
 *
 * @param mib the size of the volume, of which a third is written
 */
export async function proveRemoteVolume(cluster: NodeCluster, from: number, to: number, mib: number): Promise<void> {
  const label = `raw, from ${from} to ${to}`;
  const random = seededRandom(label);
  const [a, b] = [cluster.orchestrator(from), cluster.orchestrator(to)];
  const sizeBytes = mib * MIB;
  const written = Math.floor(mib / 3) * MIB;
  const volume = await cluster.create(from, label, { sizeBytes });
  const target = await a.bringUp(volume);
  const file = openSync(target, 'r+');
  writeSync(file, random.bytes(written), 0, written, 5 * MIB);
  fsyncSync(file);
  const first = await a.snapshot(volume);
  const before = readFileSync(target);
  const remote = { sizeBytes, parameters: REMOTE };
  const restored = await cluster.create(to, `${label}, first`, { snapshotId: first, ...remote });
  assert.equal(nodeKeyOf(restored.id), nodeKey(cluster.nodeId(to)));
  const path = await b.bringUp(restored);
  assert.ok(readFileSync(path).equals(before), 'the first snapshot');
  for (let index = 0; index < 20; index += 1) {
    writeSync(file, random.bytes(BLOCK), 0, BLOCK, random.below(sizeBytes / BLOCK) * BLOCK);
  }
  fsyncSync(file);
  blockDiscard(file, 8 * MIB, 2 * MIB);
  closeSync(file);
  const second = await a.snapshot(volume);
  const now = readFileSync(target);
  const again = await cluster.create(to, `${label}, second`, { snapshotId: second, ...remote });
  assert.ok(readFileSync(await b.bringUp(again)).equals(now), 'the second snapshot');
  const { log } = cluster.plugin(to);
  const pulled = [...log.matchAll(/"base":"(snap-[^"]*)","bytes":"?\d+/g)].map(([, base]) => base);
  assert.deepEqual(pulled, [first], log);
  await b.remove(restored, again);
  await a.remove(volume);
}
