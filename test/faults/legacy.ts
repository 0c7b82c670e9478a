/**
 * The operations before CSI v1 that take steps of their own: the caller makes the target, which stays, and 0.1 stages
 * with the first publication and unstages with the last one. All else is a translation and takes the steps of v1.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Message } from '../support/csi-client.js';
import { LegacyClient, type OldVersion } from '../support/legacy-client.js';
import type { HeldVolume } from '../support/orchestrator.js';
import type { Attempt, Operation } from './faults.js';
import { emptyContents, type Scene, type VolumeKind } from './scene.js';

export function legacyPublish(version: OldVersion, kind: VolumeKind): Operation {
  return {
    name: `NodePublishVolume ${kind} in CSI ${version}`,
    prepare: (scene) =>
      attemptOn(scene, version, kind, async (volume, publish, unpublish) => ({
        call: publish,
        check: () => emptyContents(kind).work(volume.targetPath, scene.random),
        undo: unpublish,
      })),
  };
}

export function legacyUnpublish(version: OldVersion, kind: VolumeKind): Operation {
  return {
    name: `NodeUnpublishVolume ${kind} in CSI ${version}`,
    prepare: (scene) =>
      attemptOn(scene, version, kind, async (volume, publish, unpublish) => {
        const contents = emptyContents(kind);
        await publish();
        await contents.work(volume.targetPath, scene.random);
        return {
          call: unpublish,
          check: async () => {
            await publish();
            await contents.verify(volume.targetPath);
            await unpublish();
          },
          undo: async () => undefined,
        };
      }),
  };
}

type Use = () => Promise<void>;

/** With a new volume, staged where the version has that, and a target made for it. */
async function attemptOn(
  scene: Scene,
  version: OldVersion,
  kind: VolumeKind,
  make: (volume: HeldVolume, publish: Use, unpublish: Use) => Promise<Attempt>,
): Promise<Attempt> {
  const volume = await scene.volume(kind);
  const { id, targetPath, stagingPath, capability } = volume;
  mkdirSync(kind === 'block' ? dirname(targetPath) : targetPath, { recursive: true });
  if (kind === 'block') writeFileSync(targetPath, '');
  const isStaged = version === '0.3';
  if (isStaged) await scene.orchestrator.stage(volume);
  const target = { volume_id: id, target_path: targetPath };
  const use = { ...target, volume_capability: capability };
  const staging = isStaged ? { staging_target_path: stagingPath } : {};
  const attempt = await make(
    volume,
    () => call(scene, version, 'NodePublishVolume', { ...use, ...staging }),
    () => call(scene, version, 'NodeUnpublishVolume', target),
  );
  const undo = async (answer: unknown): Promise<void> => {
    await attempt.undo(answer);
    assert.deepEqual(readdirSync(scene.staging.directory), []);
    // Not recursive: it is there, and empty.
    if (kind === 'block') rmSync(targetPath);
    else rmdirSync(targetPath);
    if (isStaged) await scene.orchestrator.unstage(volume);
    await scene.delete(volume);
  };
  return { ...attempt, undo };
}

async function call(
  scene: Scene,
  version: OldVersion,
  rpc: string,
  request: Message,
): Promise<void> {
  const client = new LegacyClient(`unix://${scene.workspace.path('plugin.sock')}`, version);
  try {
    await client.call(rpc, request);
  } finally {
    client.close();
  }
}
