/**
 * Velero's block data mover as a driver sees it: its calls in their order and with their parameters, for a backup and for a restore
 * in place. It keeps the images that Velero would store. When a list fails it does what Velero does, which copies more.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { blockCapability, type CsiClient, type Message, type MetadataAnswer } from './csi-client.js';
import type { HeldVolume, Orchestrator } from './orchestrator.js';
import { allChunks, CHUNK_BYTES, chunksOf, StoredImage } from './stored-image.js';

/** Between two calls, where a plugin may restart. */
export const MOMENTS = [
  'the snapshot is ready',
  'the claim is published',
  'the list is read',
  'the snapshot is deleted',
  'the snapshot of the restore is ready',
  'the volume is published as Block',
] as const;
export type Moment = (typeof MOMENTS)[number];

export interface MoverOptions {
  /** Calls the node of the volume. */
  orchestrator: Orchestrator;
  /** Asked before each call to the controller, and before each list. */
  client: () => CsiClient;
  /** CreateVolume, with whatever the request lacks and as often as it takes. */
  createVolume: (request: Message) => Promise<Message>;
  /** Of the StorageClass of the backupPVC. */
  parameters: Readonly<Record<string, string>>;
  /** backupPVC.readOnly */
  readOnly: boolean;
  meanwhile: (moment: Moment) => Promise<void>;
}

/** What a backup has done. */
export interface StoredBackup {
  /** Its change id: the handle of a snapshot that is deleted. */
  readonly snapshotId: string;
  readonly method: 'delta' | 'allocated' | 'full';
  /** Why it is no better method. */
  readonly reason: string;
  readonly listedBytes: number;
  readonly copiedBytes: number;
  readonly image: StoredImage;
}

interface List {
  method: StoredBackup['method'];
  reason: string;
  listedBytes: number;
  chunks: number[];
}

const bytesOf = ({ ranges }: MetadataAnswer): number => Number(ranges.reduce((sum, { size }) => sum + size, 0n));

export class VeleroMover {
  #last: StoredBackup | null = null;

  constructor(private readonly options: MoverOptions) {}

  /** One backup of the volume, based on the one before. Fails unless its image holds what the snapshot holds. */
  async backUp(volumeId: string): Promise<StoredBackup> {
    const { orchestrator, meanwhile, readOnly } = this.options;
    const { snapshotId, sizeBytes } = await this.#snapshot(volumeId);
    await meanwhile('the snapshot is ready');
    const claim = await this.#claim(snapshotId, sizeBytes);
    await orchestrator.stage(claim);
    const devicePath = await orchestrator.publish(claim, { readonly: readOnly });
    await meanwhile('the claim is published');
    const { chunks, ...list } = await this.#list(snapshotId, sizeBytes);
    await meanwhile('the list is read');
    const image = (this.#last?.image ?? StoredImage.empty()).updated(devicePath, sizeBytes, chunks);
    image.assertHeldBy(devicePath);
    await orchestrator.remove(claim);
    await orchestrator.deleteSnapshot(snapshotId);
    await meanwhile('the snapshot is deleted');
    this.#last = { snapshotId, ...list, copiedBytes: chunks.length * CHUNK_BYTES, image };
    return this.#last;
  }

  /**
   * Makes the volume, which nobody uses, what it was at a backup, by writing what has changed since. Fails unless it then holds the
   * image.
   */
  async restoreInPlace(
    volume: HeldVolume,
    backup: StoredBackup,
  ): Promise<{ writtenBytes: number; zeroedBytes: number }> {
    const { orchestrator, client, meanwhile } = this.options;
    const { snapshotId, sizeBytes } = await this.#snapshot(volume.id);
    await meanwhile('the snapshot of the restore is ready');
    // Here nothing else is asked when this fails, and the restore fails.
    const { ranges } = await client().delta(backup.snapshotId, snapshotId, { starting_offset: 0, max_results: 0 });
    // The volume has a second PersistentVolume, and so other paths.
    const asBlock = {
      ...volume,
      capability: blockCapability(),
      stagingPath: `${volume.stagingPath}-block`,
      targetPath: orchestrator.target(volume.id, 'restore'),
    };
    const devicePath = await orchestrator.bringUp(asBlock);
    await meanwhile('the volume is published as Block');
    const done = backup.image.write(devicePath, ranges);
    backup.image.assertHeldBy(devicePath, sizeBytes);
    await orchestrator.takeDown(asBlock);
    await orchestrator.deleteSnapshot(snapshotId);
    return done;
  }

  /** As external-snapshotter takes it. */
  async #snapshot(volumeId: string): Promise<{ snapshotId: string; sizeBytes: number }> {
    const { controller } = this.options.client();
    const { snapshot } = await controller.CreateSnapshot({
      source_volume_id: volumeId,
      name: `snapshot-${randomUUID()}`,
      parameters: {
        'csi.storage.k8s.io/volumesnapshot/name': 'velero-data',
        'csi.storage.k8s.io/volumesnapshot/namespace': 'shop',
        'csi.storage.k8s.io/volumesnapshotcontent/name': `snapcontent-${randomUUID()}`,
      },
    });
    assert.equal(snapshot.ready_to_use, true);
    // The second VolumeSnapshotContent is made for the handle of the first.
    const { entries } = await controller.ListSnapshots({ snapshot_id: snapshot.snapshot_id });
    assert.deepEqual(
      entries.map((entry: Message) => entry['snapshot'].ready_to_use),
      [true],
    );
    return { snapshotId: snapshot.snapshot_id, sizeBytes: Number(snapshot.size_bytes) };
  }

  /** As external-provisioner makes it: Block, whatever the volume is. */
  async #claim(snapshotId: string, sizeBytes: number): Promise<HeldVolume> {
    const { orchestrator, createVolume, parameters, readOnly } = this.options;
    const capability = blockCapability(readOnly ? 'MULTI_NODE_READER_ONLY' : 'SINGLE_NODE_WRITER');
    const name = `pvc-${randomUUID()}`;
    const { volume } = await createVolume({
      name,
      capacity_range: { required_bytes: sizeBytes },
      volume_capabilities: [capability],
      parameters: {
        ...parameters,
        'csi.storage.k8s.io/pv/name': name,
        'csi.storage.k8s.io/pvc/name': 'shop-1-data',
        'csi.storage.k8s.io/pvc/namespace': 'velero',
      },
      volume_content_source: { snapshot: { snapshot_id: snapshotId } },
    });
    const claim = orchestrator.hold(name, volume, capability);
    assert.equal(claim.sizeBytes, sizeBytes);
    return claim;
  }

  /** The whole list before anything is copied, never resumed and never asked for again. */
  async #list(snapshotId: string, sizeBytes: number): Promise<List> {
    const all = { starting_offset: 0, max_results: 0 };
    const base = this.#last?.snapshotId;
    const reasons: string[] = [];
    const ask = async (method: StoredBackup['method'], call: () => Promise<MetadataAnswer>): Promise<List | null> => {
      try {
        const answer = await call();
        assert.equal(answer.capacity, BigInt(sizeBytes));
        const chunks = chunksOf(answer.ranges);
        return { method, reason: reasons.join(', '), listedBytes: bytesOf(answer), chunks };
      } catch (thrown) {
        reasons.push(String(thrown));
        return null;
      }
    };
    return (
      (base === undefined ? null : await ask('delta', () => this.options.client().delta(base, snapshotId, all))) ??
      (await ask('allocated', () => this.options.client().allocated(snapshotId, all))) ?? {
        method: 'full',
        reason: reasons.join(', '),
        listedBytes: sizeBytes,
        chunks: allChunks(sizeBytes),
      }
    );
  }
}
