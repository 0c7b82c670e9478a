/**
 * The calls of an orchestrator one by one, so that each can be measured, on any driver. Knows what it has made, and
 * removes it in the order of the specification.
 */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { CsiConnection, Message } from '../csi-connection.js';
import type { Settings } from '../suite.js';
import type { Workspace } from '../workspace.js';

export interface Volume {
  id: string;
  sizeBytes: number;
  context: Message;
  capability: Message;
  staging: string;
  /** Where it is published: the device, or the mount. */
  target: string;
}

export const BLOCK = { block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } };
export const XFS = { mount: { fs_type: 'xfs' }, access_mode: { mode: 'SINGLE_NODE_WRITER' } };

export class Volumes {
  readonly #volumes = new Map<string, Volume>();
  readonly #snapshots = new Set<string>();
  readonly #prefix = `blockdelta-bench-${process.pid}-${Date.now()}`;
  #made = 0;

  constructor(
    settings: Pick<Settings, 'cleanup' | 'parameters'>,
    private readonly connection: CsiConnection,
    private readonly workspace: Workspace,
  ) {
    this.parameters = settings.parameters;
    settings.cleanup.defer(() => this.removeAll());
  }

  private readonly parameters: Settings['parameters'];

  async create(capability: Message, sizeBytes: number, sourceSnapshot?: string): Promise<Volume> {
    const name = this.#name('volume');
    const source = { snapshot: { snapshot_id: sourceSnapshot } };
    const answer = await this.connection.call('Controller', 'CreateVolume', {
      name,
      capacity_range: { required_bytes: String(sizeBytes) },
      volume_capabilities: [capability],
      parameters: this.parameters,
      ...(sourceSnapshot === undefined ? {} : { volume_content_source: source }),
    });
    const made = answer['volume'] as Message;
    const volume = {
      id: String(made['volume_id']),
      sizeBytes: Number(made['capacity_bytes']) || sizeBytes,
      context: made['volume_context'] as Message,
      capability,
      staging: this.workspace.path('staging', name),
      target: this.workspace.path('published', name),
    };
    this.#volumes.set(volume.id, volume);
    mkdirSync(volume.staging, { recursive: true });
    mkdirSync(dirname(volume.target), { recursive: true });
    return volume;
  }

  async stage({ id, capability, context, staging }: Volume): Promise<void> {
    await this.connection.call('Node', 'NodeStageVolume', {
      volume_id: id,
      volume_capability: capability,
      volume_context: context,
      staging_target_path: staging,
    });
  }

  async publish({ id, capability, context, staging, target }: Volume): Promise<void> {
    await this.connection.call('Node', 'NodePublishVolume', {
      volume_id: id,
      volume_capability: capability,
      volume_context: context,
      staging_target_path: staging,
      target_path: target,
    });
  }

  async unpublish({ id, target }: Volume): Promise<void> {
    const where = { volume_id: id, target_path: target };
    await this.connection.call('Node', 'NodeUnpublishVolume', where);
  }

  async unstage({ id, staging }: Volume): Promise<void> {
    const where = { volume_id: id, staging_target_path: staging };
    await this.connection.call('Node', 'NodeUnstageVolume', where);
  }

  async expand(volume: Volume, sizeBytes: number): Promise<void> {
    await this.connection.call('Controller', 'ControllerExpandVolume', {
      volume_id: volume.id,
      capacity_range: { required_bytes: String(sizeBytes) },
      volume_capability: volume.capability,
    });
  }

  async snapshot({ id }: Volume): Promise<string> {
    const answer = await this.connection.call('Controller', 'CreateSnapshot', {
      name: this.#name('snapshot'),
      source_volume_id: id,
    });
    const snapshot = String((answer['snapshot'] as Message)['snapshot_id']);
    this.#snapshots.add(snapshot);
    return snapshot;
  }

  async deleteSnapshot(snapshot: string): Promise<void> {
    await this.connection.call('Controller', 'DeleteSnapshot', { snapshot_id: snapshot });
    this.#snapshots.delete(snapshot);
  }

  async deleteVolume(volume: Volume): Promise<void> {
    await this.connection.call('Controller', 'DeleteVolume', { volume_id: volume.id });
    this.#volumes.delete(volume.id);
  }

  /** Also what is still published. */
  async removeAll(): Promise<void> {
    for (const snapshot of this.#snapshots) await this.deleteSnapshot(snapshot);
    for (const volume of this.#volumes.values()) {
      await this.unpublish(volume);
      await this.unstage(volume);
      await this.deleteVolume(volume);
    }
  }

  #name(kind: string): string {
    this.#made += 1;
    return `${this.#prefix}-${kind}-${this.#made}`;
  }
}
