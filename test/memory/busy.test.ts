/** Objects that are being worked on: every call waits for them for a bounded time, and is ABORTED then. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StatusName } from '../../src/base/errors.js';
import {
  groupSnapshotNameKey,
  type LockRequest,
  snapshotKey,
  snapshotNameKey,
  volumeKey,
  volumeNameKey,
} from '../../src/driver/volumes/operation-locks.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused, statusOf } from '../support/refusal.js';

/** In place of 5 s. */
const WAIT_MS = 100;

const running = runMemoryPlugin({
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
  lockWaitMs: WAIT_MS,
  prepare: async ({ orchestrator }) => {
    kept = await orchestrator.create('kept');
    base = await orchestrator.snapshot(kept, 'base');
    other = await orchestrator.snapshot(kept, 'other');
  },
});
const { orchestrator } = running;
const node = () => running.client.node;
let kept: HeldVolume;
let base = '';
let other = '';

/** What somebody else works on, the call that waits for it, and where that cannot succeed in memory, its answer. */
type Busy = readonly [() => LockRequest, () => Promise<unknown>, StatusName?];
const volume = (): LockRequest => volumeKey(kept.id);
const target = (): Message => ({
  volume_id: kept.id,
  staging_target_path: kept.stagingPath,
  target_path: kept.targetPath,
  volume_capability: kept.capability,
});

const BUSY: Readonly<Record<string, Busy>> = {
  'CV23, G9: CreateVolume of a name': [() => volumeNameKey('new'), () => orchestrator.create('new')],
  'CV23: CreateVolume from a volume': [volume, () => orchestrator.create('cloned', { volumeId: kept.id })],
  'CV23: CreateVolume from a snapshot': [
    () => snapshotKey(base),
    () => orchestrator.create('restored', { snapshotId: base }),
  ],
  'CS5: CreateSnapshot of a name': [() => snapshotNameKey('new'), () => orchestrator.snapshot(kept, 'new')],
  'CS5: CreateSnapshot of a volume': [volume, () => orchestrator.snapshot(kept, 'next')],
  'DS5: DeleteSnapshot': [() => snapshotKey(other), () => orchestrator.deleteSnapshot(other)],
  'G9: CreateVolumeGroupSnapshot of a name': [
    () => groupSnapshotNameKey('new'),
    () => orchestrator.groupSnapshot([kept], 'new'),
  ],
  'G9: CreateVolumeGroupSnapshot of a volume': [volume, () => orchestrator.groupSnapshot([kept], 'next')],
  'G9: ControllerExpandVolume': [volume, () => orchestrator.expand(kept, 16 * MIB)],
  'G9: ControllerModifyVolume': [volume, () => orchestrator.modify(kept, { readAheadKiB: '64' })],
  'G9: ControllerPublishVolume': [volume, () => orchestrator.controllerPublish(kept)],
  'G9: ControllerUnpublishVolume': [volume, () => orchestrator.controllerUnpublish(kept)],
  'G9: NodeStageVolume': [volume, () => node().NodeStageVolume(target()), 'FAILED_PRECONDITION'],
  'G9: NodePublishVolume': [...([volume, () => node().NodePublishVolume(target())] as const), 'FAILED_PRECONDITION'],
  'G9: NodeUnpublishVolume': [volume, () => orchestrator.unpublish(kept)],
  'G9: NodeUnstageVolume': [volume, () => orchestrator.unstage(kept)],
  'G9: GetMetadataAllocated': [() => snapshotKey(base), () => running.client.allocated(base)],
  'G9: DeleteVolume': [volume, () => orchestrator.delete(kept)],
};
for (const [title, [key, call, otherwise = 'OK']] of Object.entries(BUSY)) {
  test(`${title} that is being worked on waits, is ABORTED in the end, and goes on when it is free`, async () => {
    const held = key();
    const release = running.locks.acquire([held]);
    const message = await refused(call(), 'ABORTED', /try again/);
    assert.ok(message.includes(held.label), message);
    const waiting = statusOf(call());
    setTimeout(release, WAIT_MS / 4);
    assert.equal(await waiting, otherwise);
  });
}
