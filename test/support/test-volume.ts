/** A volume of a running plugin, and its snapshots, as a conforming orchestrator would handle them. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { blockCapability, type CsiClient, type Message, mountCapability } from './csi-client.js';
import { unstaged } from './orchestrator.js';
import { SnapshotImage } from './snapshot-image.js';
import type { Workspace } from './workspace.js';

export interface VolumeOptions {
  pool?: string;
  sizeBytes: number;
  /** Empty: a raw block volume. */
  fsType?: string;
  sourceSnapshotId?: string;
}

export interface TestSnapshot {
  id: string;
  sizeBytes: number;
}

let made = 0;

export class TestVolume {
  #snapshots = 0;

  private constructor(
    private readonly client: CsiClient,
    private readonly capability: Message,
    readonly id: string,
    readonly sizeBytes: number,
    private readonly stagingPath: string,
    /** The block device or directory that a workload would see. */
    readonly targetPath: string,
  ) {}

  static async create(
    client: CsiClient,
    workspace: Workspace,
    options: VolumeOptions,
  ): Promise<TestVolume> {
    made += 1;
    const name = `volume-${process.pid}-${made}`;
    const fsType = options.fsType ?? '';
    const capability = fsType === '' ? blockCapability() : mountCapability(fsType);
    const answer = await client.controller.CreateVolume({
      name,
      capacity_range: { required_bytes: String(options.sizeBytes) },
      volume_capabilities: [capability],
      parameters: options.pool === undefined ? {} : { pool: options.pool },
      ...(options.sourceSnapshotId === undefined
        ? {}
        : { volume_content_source: { snapshot: { snapshot_id: options.sourceSnapshotId } } }),
    });
    const directory = workspace.path('published', name);
    mkdirSync(join(directory, 'staging'), { recursive: true });
    const { volume_id, capacity_bytes } = answer['volume'];
    return new TestVolume(
      client,
      capability,
      volume_id,
      Number(capacity_bytes),
      join(directory, 'staging'),
      join(directory, 'target'),
    );
  }

  async publish(readOnly = false): Promise<void> {
    const request = {
      volume_id: this.id,
      staging_target_path: this.stagingPath,
      volume_capability: this.capability,
    };
    await this.client.node.NodeStageVolume(request);
    await this.client.node.NodePublishVolume({
      ...request,
      target_path: this.targetPath,
      readonly: readOnly,
    });
  }

  async unpublish(): Promise<void> {
    await this.client.node.NodeUnpublishVolume({
      volume_id: this.id,
      target_path: this.targetPath,
    });
    const request = { volume_id: this.id, staging_target_path: this.stagingPath };
    await unstaged(() => this.client.node.NodeUnstageVolume(request));
  }

  async delete(): Promise<void> {
    await this.client.controller.DeleteVolume({ volume_id: this.id });
  }

  async snapshot(): Promise<TestSnapshot> {
    this.#snapshots += 1;
    const answer = await this.client.controller.CreateSnapshot({
      source_volume_id: this.id,
      name: `snapshot-${this.#snapshots}-of-${this.id}`,
    });
    const { snapshot_id, size_bytes } = answer['snapshot'];
    return { id: snapshot_id, sizeBytes: Number(size_bytes) };
  }

  async deleteSnapshot(snapshotId: string): Promise<void> {
    await this.client.controller.DeleteSnapshot({ snapshot_id: snapshotId });
  }
}

/** The file of a snapshot in a reflink pool. */
export function snapshotPath(poolDirectory: string, snapshotId: string): string {
  return join(poolDirectory, 'snapshots', snapshotId);
}

export function volumePath(poolDirectory: string, volumeId: string): string {
  return join(poolDirectory, 'volumes', volumeId);
}

/** The bytes of a snapshot, read from its file in the pool. */
export function readSnapshot(
  poolDirectory: string,
  snapshot: TestSnapshot,
  earlier: SnapshotImage | null = null,
): SnapshotImage {
  return SnapshotImage.read(snapshotPath(poolDirectory, snapshot.id), snapshot.sizeBytes, earlier);
}
