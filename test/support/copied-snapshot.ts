/** Snapshots with a copy on another node of a cluster, and volumes that are made from the copies. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { nodeKey, nodeKeyOf } from '../../src/base/csi/handles.js';
import type { Message } from './csi-client.js';
import { type NodeCluster, untilReachable } from './node-cluster.js';
import type { HeldVolume } from './orchestrator.js';

export const takeWithCopy = (
  cluster: NodeCluster,
  volume: HeldVolume,
  name: string,
  parameters: object = { copies: '1' },
): Promise<Message> =>
  cluster.router.client.controller.CreateSnapshot({ source_volume_id: volume.id, name, parameters });

/** As csi-snapshotter does it: the call is repeated until the snapshot is ready. Resolves to its id. */
export async function untilCopied(cluster: NodeCluster, volume: HeldVolume, name: string): Promise<string> {
  for (;;) {
    const { snapshot } = await untilReachable(() => takeWithCopy(cluster, volume, name));
    if (snapshot.ready_to_use === true) return snapshot.snapshot_id;
    await delay(20);
  }
}

/**
 * A volume of a class without `remoteSources`, made from the copy that a node has, with that content, and in use there.
 *
 * @param preferred the node that comes first for the orchestrator, which has no copy
 */
export async function restoreCopy(
  cluster: NodeCluster,
  [preferred, node]: readonly [number, number],
  snapshotId: string,
  content: Buffer,
): Promise<HeldVolume> {
  const spec = { snapshotId, sizeBytes: content.length };
  const restored = await untilReachable(() => cluster.create(preferred, `restored ${snapshotId}`, spec));
  assert.equal(nodeKeyOf(restored.id), nodeKey(cluster.nodeId(node)));
  assert.ok(readFileSync(await cluster.orchestrator(node).bringUp(restored)).equals(content));
  return restored;
}
