/**
 * The operations before CSI v1 that take steps of their own: the caller makes the target, which stays, and 0.1 stages
 * with the first publication and unstages with the last one. All else is a translation and takes the steps of v1.
 */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { emptyContents, type VolumeKind } from '../support/contents.js';
import type { Message } from '../support/csi-client.js';
import { LegacyClient, type OldVersion } from '../support/legacy-client.js';
import type { Operation } from './faults.js';
import type { Scene } from './scene.js';

type Rpc = 'NodePublishVolume' | 'NodeUnpublishVolume';

/** With a new volume, staged where the version has that, and a target made for it. */
export function legacy(version: OldVersion, rpc: Rpc, kind: VolumeKind): Operation {
  return {
    name: `${rpc} ${kind} in CSI ${version}`,
    prepare: async (scene) => {
      const volume = await scene.volume(kind);
      const { id, targetPath, stagingPath, capability } = volume;
      mkdirSync(kind === 'block' ? dirname(targetPath) : targetPath, { recursive: true });
      if (kind === 'block') writeFileSync(targetPath, '');
      const isStaged = version === '0.3';
      if (isStaged) await scene.orchestrator.stage(volume);
      const target = { volume_id: id, target_path: targetPath };
      const use = { ...target, volume_capability: capability };
      const staging = isStaged ? { staging_target_path: stagingPath } : {};
      const publish = () => call(scene, version, 'NodePublishVolume', { ...use, ...staging });
      const unpublish = () => call(scene, version, 'NodeUnpublishVolume', target);
      const contents = emptyContents(kind);
      const work = () => contents.work(targetPath, scene.random);
      const undo = async (): Promise<void> => {
        await unpublish();
        assert.deepEqual(readdirSync(scene.staging.directory), []);
        // Not recursive: it is there, and empty.
        if (kind === 'block') rmSync(targetPath);
        else rmdirSync(targetPath);
      };
      if (rpc === 'NodePublishVolume') return { call: publish, check: work, undo };
      await publish();
      await work();
      const check = async (): Promise<void> => {
        await publish();
        await contents.verify(targetPath);
      };
      return { call: unpublish, check, undo };
    },
  };
}

async function call(scene: Scene, version: OldVersion, rpc: Rpc, request: Message): Promise<void> {
  const client = new LegacyClient(`unix://${scene.workspace.path('plugin.sock')}`, version);
  try {
    await client.call(rpc, request);
  } finally {
    client.close();
  }
}
