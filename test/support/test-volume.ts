/** A volume of a running plugin, and its snapshots, as a conforming orchestrator would handle them. */
import { join } from 'node:path';
import { blockCapability, type CsiClient, mountCapability } from './csi-client.js';
import { type HeldVolume, Orchestrator } from './orchestrator.js';
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
    private readonly orchestrator: Orchestrator,
    private readonly held: HeldVolume,
  ) {}

  static async create(
    client: CsiClient,
    workspace: Workspace,
    { sizeBytes, fsType = '', pool, sourceSnapshotId: snapshotId }: VolumeOptions,
  ): Promise<TestVolume> {
    made += 1;
    const orchestrator = new Orchestrator(workspace, () => client);
    const held = await orchestrator.create(`volume-${process.pid}-${made}`, {
      ...{ sizeBytes, capability: fsType === '' ? blockCapability() : mountCapability(fsType) },
      ...(pool === undefined ? {} : { parameters: { pool } }),
      ...(snapshotId === undefined ? {} : { snapshotId }),
    });
    return new TestVolume(client, orchestrator, held);
  }

  get id(): string {
    return this.held.id;
  }

  get sizeBytes(): number {
    return this.held.sizeBytes;
  }

  /** The block device or directory that a workload would see. */
  get targetPath(): string {
    return this.held.targetPath;
  }

  async publish(readonly = false): Promise<void> {
    await this.orchestrator.stage(this.held);
    await this.orchestrator.publish(this.held, { readonly });
  }

  unpublish(): Promise<void> {
    return this.orchestrator.takeDown(this.held);
  }

  delete(): Promise<void> {
    return this.orchestrator.delete(this.held);
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

  deleteSnapshot(snapshotId: string): Promise<void> {
    return this.orchestrator.deleteSnapshot(snapshotId);
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
