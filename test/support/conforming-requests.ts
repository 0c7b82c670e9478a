/**
 * A conforming request for every RPC, about objects that exist, for tests that make one field of it
 * nonconforming. Sending one as it is may make or delete the objects called 'doomed', and nothing else.
 */
import { mkdirSync } from 'node:fs';
import { blockCapability, type Message } from './csi-client.js';
import { createRequest, type HeldVolume, MIB, type Orchestrator } from './orchestrator.js';

export class ConformingRequests {
  #volume: HeldVolume | undefined;
  #snapshotIds: string[] = [];
  #group: Message = {};

  constructor(private readonly orchestrator: Orchestrator) {}

  /** Makes a block volume with snapshots and a group snapshot. */
  async prepare(): Promise<HeldVolume> {
    const { orchestrator } = this;
    this.#volume = await orchestrator.create('conforming');
    mkdirSync(this.#nobody, { recursive: true });
    for (const name of ['first', 'second']) {
      this.#snapshotIds.push(await orchestrator.snapshot(this.#volume, name));
    }
    this.#group = await this.#makeGroup('conforming');
    return this.#volume;
  }

  /** One that has everything the RPC requires, and nothing else. */
  async to(rpc: string): Promise<Message> {
    const { orchestrator } = this;
    const volume = this.#volume as HeldVolume;
    const volume_id = volume.id;
    const [first, second] = this.#snapshotIds;
    const volume_capability = blockCapability();
    const staging_target_path = volume.stagingPath;
    switch (rpc) {
      case 'CreateVolume':
        return createRequest('doomed');
      case 'DeleteVolume':
        return { volume_id: (await orchestrator.create('doomed')).id };
      case 'ControllerPublishVolume':
        return { volume_id, node_id: 'test-node', volume_capability };
      case 'ValidateVolumeCapabilities':
        return { volume_id, volume_capabilities: [volume_capability] };
      case 'CreateSnapshot':
        return { source_volume_id: volume_id, name: 'doomed' };
      case 'DeleteSnapshot':
        return { snapshot_id: await orchestrator.snapshot(volume, 'doomed') };
      case 'GetSnapshot':
      case 'GetMetadataAllocated':
        return { snapshot_id: first };
      case 'GetMetadataDelta':
        return { base_snapshot_id: first, target_snapshot_id: second };
      case 'ControllerExpandVolume':
        return { volume_id, capacity_range: { required_bytes: 8 * MIB } };
      case 'ControllerModifyVolume':
        return { volume_id, mutable_parameters: { readAheadKiB: '128' } };
      case 'CreateVolumeGroupSnapshot':
        return { name: 'doomed', source_volume_ids: [volume_id] };
      case 'DeleteVolumeGroupSnapshot':
        return this.#makeGroup('doomed');
      case 'GetVolumeGroupSnapshot':
        return this.#group;
      case 'NodeStageVolume':
        return { volume_id, staging_target_path, volume_capability };
      case 'NodeUnstageVolume':
        return { volume_id, staging_target_path: this.#nobody };
      case 'NodePublishVolume': {
        const target_path = volume.targetPath;
        return { volume_id, staging_target_path, target_path, volume_capability };
      }
      case 'NodeUnpublishVolume':
        return { volume_id, target_path: this.#nobody };
      case 'NodeGetVolumeStats':
      case 'NodeExpandVolume':
        return { volume_id, volume_path: staging_target_path };
      case 'ControllerUnpublishVolume':
      case 'ControllerGetVolume':
      case 'ControllerGetVolumeHealth':
      case 'NodeGetVolumeHealth':
        return { volume_id };
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
