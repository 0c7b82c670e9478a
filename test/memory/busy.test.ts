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
} from '../../src/volumes/operation-locks.js';
import type { Message } from '../support/csi-client.js';
import { runMemoryPlugin } from '../support/memory-plugin.js';
import { type HeldVolume, MIB } from '../support/orchestrator.js';
import { refused, statusOf } from '../support/refusal.js';

/** In place of 5 s. */
const WAIT_MS = 100;

const running = runMemoryPlugin('busy', {
  env: { BLOCKDELTA_CONTROLLER_PUBLISH: 'on' },
  lockWaitMs: WAIT_MS,
  prepare: async ({ orchestrator }) => {
    kept = await orchestrator.create('kept');
    base = await orchestrator.snapshot(kept, 'base');
    target = await orchestrator.snapshot(kept, 'target');
  },
});
const { orchestrator } = running;
const node = () => running.client.node;
let kept: HeldVolume;
let base = '';
let target = '';

interface Busy {
  /** What somebody else works on. */
  key(): LockRequest;
  call(): Promise<unknown>;
  /** Where the call cannot succeed with a volume in memory. */
  otherwise?: StatusName;
}
const ofVolume = (call: () => Promise<unknown>, otherwise?: StatusName): Busy => ({
  ...{ key: () => volumeKey(kept.id), call },
  ...(otherwise === undefined ? {} : { otherwise }),
});
const paths = (): Message => ({
  ...{ staging_target_path: kept.stagingPath, target_path: kept.targetPath },
  volume_capability: kept.capability,
});

const BUSY: Readonly<Record<string, Busy>> = {
  'CV23, G9: CreateVolume of a name': {
    key: () => volumeNameKey('new'),
    call: () => orchestrator.create('new'),
  },
  'CV23: CreateVolume from a volume': ofVolume(() =>
    orchestrator.create('cloned', { volumeId: kept.id }),
  ),
  'CV23: CreateVolume from a snapshot': {
    key: () => snapshotKey(base),
    call: () => orchestrator.create('restored', { snapshotId: base }),
  },
  'CS5: CreateSnapshot of a name': {
    key: () => snapshotNameKey('new'),
    call: () => orchestrator.snapshot(kept, 'new'),
  },
  'CS5: CreateSnapshot of a volume': ofVolume(() => orchestrator.snapshot(kept, 'next')),
  'DS5: DeleteSnapshot': {
    key: () => snapshotKey(target),
    call: () => orchestrator.deleteSnapshot(target),
  },
  'G9: CreateVolumeGroupSnapshot of a name': {
    key: () => groupSnapshotNameKey('new'),
    call: () => orchestrator.groupSnapshot([kept], 'new'),
  },
  'G9: CreateVolumeGroupSnapshot of a volume': ofVolume(() =>
    orchestrator.groupSnapshot([kept], 'next'),
  ),
  'G9: ControllerExpandVolume': ofVolume(() => orchestrator.expand(kept, 16 * MIB)),
  'G9: ControllerModifyVolume': ofVolume(() => orchestrator.modify(kept, { readAheadKiB: '64' })),
  'G9: ControllerPublishVolume': ofVolume(() => orchestrator.controllerPublish(kept)),
  'G9: ControllerUnpublishVolume': ofVolume(() => orchestrator.controllerUnpublish(kept)),
  'G9: NodeStageVolume': ofVolume(
    () => node().NodeStageVolume({ volume_id: kept.id, ...paths() }),
    'FAILED_PRECONDITION',
  ),
  'G9: NodePublishVolume': ofVolume(
    () => node().NodePublishVolume({ volume_id: kept.id, ...paths() }),
    'FAILED_PRECONDITION',
  ),
  'G9: NodeUnpublishVolume': ofVolume(() => orchestrator.unpublish(kept)),
  'G9: NodeUnstageVolume': ofVolume(() => orchestrator.unstage(kept)),
  'G9: GetMetadataAllocated': {
    key: () => snapshotKey(base),
    call: () => running.client.allocated(base),
  },
  'G9: DeleteVolume': ofVolume(() => orchestrator.delete(kept)),
};
for (const [title, { key, call, otherwise = 'OK' }] of Object.entries(BUSY)) {
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
