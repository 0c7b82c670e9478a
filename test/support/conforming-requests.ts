/**
 * A conforming request for every RPC, about objects that exist, for tests that make one field of it
 * nonconforming. Sending one as it is may make or delete the objects called 'doomed', and nothing else.
 */
import { mkdirSync } from 'node:fs';
import { blockCapability, type Message } from './csi-client.js';
import { createRequest, type HeldVolume, MIB, type Orchestrator } from './orchestrator.js';
import { requestOf } from './request-fields.js';

export class ConformingRequests {
  #fields: Message = {};
  #volume: HeldVolume | undefined;

  constructor(private readonly orchestrator: Orchestrator) {}

  /** Makes a block volume with snapshots and a group snapshot. */
  async prepare(): Promise<HeldVolume> {
    const { orchestrator } = this;
    const volume = await orchestrator.create('conforming');
    this.#volume = volume;
    mkdirSync(this.#nobody, { recursive: true });
    const first = await orchestrator.snapshot(volume, 'first');
    const volume_capability = blockCapability();
    this.#fields = {
      name: 'doomed',
      volume_id: volume.id,
      node_id: 'test-node',
      volume_capability,
      volume_capabilities: [volume_capability],
      source_volume_id: volume.id,
      source_volume_ids: [volume.id],
      snapshot_id: first,
      base_snapshot_id: first,
      target_snapshot_id: await orchestrator.snapshot(volume, 'second'),
      capacity_range: { required_bytes: 8 * MIB },
      mutable_parameters: { readAheadKiB: '128' },
      staging_target_path: volume.stagingPath,
      target_path: volume.targetPath,
      volume_path: volume.stagingPath,
      ...(await this.#makeGroup('conforming')),
    };
    return volume;
  }

  /** One that has everything the RPC requires, and nothing else. */
  async to(rpc: string): Promise<Message> {
    return requestOf(rpc, { ...this.#fields, ...(await this.#ownFields(rpc)) });
  }

  async #ownFields(rpc: string): Promise<Message> {
    const { orchestrator } = this;
    switch (rpc) {
      case 'CreateVolume':
        return createRequest('doomed');
      case 'DeleteVolume':
        return { volume_id: (await orchestrator.create('doomed')).id };
      case 'DeleteSnapshot':
        return { snapshot_id: await orchestrator.snapshot(this.#volume as HeldVolume, 'doomed') };
      case 'DeleteVolumeGroupSnapshot':
        return this.#makeGroup('doomed');
      case 'NodeUnstageVolume':
      case 'NodeUnpublishVolume':
        return { staging_target_path: this.#nobody, target_path: this.#nobody };
      default:
        return {};
    }
  }

  /** A path of no volume. */
  get #nobody(): string {
    return this.orchestrator.target('nobody', 'pod');
  }

  async #makeGroup(name: string): Promise<Message> {
    const volumes = [this.#volume as HeldVolume];
    const { id, snapshotIds } = await this.orchestrator.groupSnapshot(volumes, name);
    return { group_snapshot_id: id, snapshot_ids: snapshotIds };
  }
}
