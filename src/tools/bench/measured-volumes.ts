/**
 * Makes volumes and snapshots of any driver, call by call in the order of the specification, so that each call can be
 * measured. Removes the objects that it has made, and nothing else.
 */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { CsiDriver, Message } from '../client/csi-driver.js';
import { BLOCK_CAPABILITY, publish, topologyRequirement, undoSteps, type VolumeUse } from '../client/publication.js';
import type { Settings } from './suite.js';
import type { Workspace } from './workspace.js';

export interface Volume extends VolumeUse {
  readonly sizeBytes: number;
}

export const BLOCK = BLOCK_CAPABILITY;
export const XFS = { mount: { fs_type: 'xfs' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };

const READY_PAUSE_MS = 100;

export class Volumes {
  readonly #volumes = new Map<string, Volume>();
  readonly #snapshots = new Set<string>();
  readonly #prefix = `blockdelta-bench-${process.pid}-${Date.now()}`;
  #made = 0;

  constructor(
    private readonly settings: Pick<Settings, 'cleanup' | 'parameters' | 'snapshotParameters'>,
    /** Another one after a restart of the plugin. */
    public driver: CsiDriver,
    private readonly workspace: Workspace,
  ) {
    settings.cleanup.defer(() => this.removeAll());
  }

  async create(capability: Message, sizeBytes: number, snapshot?: string): Promise<Volume> {
    const name = this.#name('volume');
    const { segments } = await this.driver.info();
    const source = { volume_content_source: { snapshot: { snapshot_id: snapshot } } };
    const { volume: made } = await this.driver.call('CreateVolume', {
      name,
      capacity_range: { required_bytes: String(sizeBytes) },
      volume_capabilities: [capability],
      parameters: this.settings.parameters,
      ...topologyRequirement(segments),
      ...(snapshot === undefined ? {} : source),
    });
    const volume = {
      volumeId: String(made.volume_id),
      sizeBytes: Number(made.capacity_bytes) || sizeBytes,
      context: made.volume_context,
      capability,
      stagingPath: this.workspace.path('staging', name),
      targetPath: this.workspace.path('published', name),
    };
    this.#volumes.set(volume.volumeId, volume);
    mkdirSync(volume.stagingPath, { recursive: true });
    mkdirSync(dirname(volume.targetPath), { recursive: true });
    return volume;
  }

  /** Runs every step until the volume can be used at its target. */
  async bringUp(volume: Volume): Promise<Volume> {
    await publish((rpc, request) => this.driver.call(rpc, request), await this.driver.info(), volume);
    return volume;
  }

  async takeDown(volume: Volume): Promise<void> {
    const steps = undoSteps(await this.driver.info(), volume);
    for (const { rpc, request } of steps) await this.driver.call(rpc, request);
  }

  async stage(volume: Volume): Promise<void> {
    await this.driver.call('NodeStageVolume', staged(volume));
  }

  async publish(volume: Volume): Promise<void> {
    const request = { ...staged(volume), target_path: volume.targetPath };
    await this.driver.call('NodePublishVolume', request);
  }

  async unpublish({ volumeId, targetPath }: Volume): Promise<void> {
    await this.driver.call('NodeUnpublishVolume', { volume_id: volumeId, target_path: targetPath });
  }

  async unstage({ volumeId, stagingPath }: Volume): Promise<void> {
    const where = { volume_id: volumeId, staging_target_path: stagingPath };
    await this.driver.call('NodeUnstageVolume', where);
  }

  async expand({ volumeId, capability }: Volume, sizeBytes: number): Promise<void> {
    await this.driver.call('ControllerExpandVolume', {
      volume_id: volumeId,
      capacity_range: { required_bytes: String(sizeBytes) },
      volume_capability: capability,
    });
  }

  /** Resolves to the id when the snapshot is ready to use. */
  async snapshot({ volumeId }: Volume): Promise<string> {
    const parameters = this.settings.snapshotParameters;
    const request = { name: this.#name('snapshot'), source_volume_id: volumeId, parameters };
    for (;;) {
      const { snapshot } = await this.driver.call('CreateSnapshot', request);
      const id = String(snapshot.snapshot_id);
      this.#snapshots.add(id);
      if (snapshot.ready_to_use === true) return id;
      await delay(READY_PAUSE_MS);
    }
  }

  async deleteSnapshot(snapshot: string): Promise<void> {
    await this.driver.call('DeleteSnapshot', { snapshot_id: snapshot });
    this.#snapshots.delete(snapshot);
  }

  async deleteVolume({ volumeId }: Volume): Promise<void> {
    await this.driver.call('DeleteVolume', { volume_id: volumeId });
    this.#volumes.delete(volumeId);
  }

  /** Also removes volumes that are still published. */
  async removeAll(): Promise<void> {
    for (const snapshot of this.#snapshots) await this.deleteSnapshot(snapshot);
    for (const volume of this.#volumes.values()) {
      await this.takeDown(volume);
      await this.deleteVolume(volume);
    }
  }

  #name(kind: string): string {
    this.#made += 1;
    return `${this.#prefix}-${kind}-${this.#made}`;
  }
}

const staged = ({ volumeId, capability, context, stagingPath }: Volume): Message => ({
  volume_id: volumeId,
  volume_capability: capability,
  volume_context: context,
  staging_target_path: stagingPath,
});
