/**
 * A conforming request for every RPC, about objects that exist, for tests that make one field of it
 * nonconforming. Sending one as it is may make or delete the objects called 'doomed', and nothing else.
 */
import { mkdirSync } from 'node:fs';
import { blockCapability, type Message } from './csi-client.js';
import { createRequest, type HeldVolume, MIB } from './orchestrator.js';
import { decodeMessage, encodeMessage, RawConnection } from './raw-call.js';
import type { RunningPlugin } from './running-plugin.js';

export class ConformingRequests {
  readonly #running: RunningPlugin;
  #volume: HeldVolume | undefined;
  #snapshotIds: string[] = [];
  #group: Message = {};

  constructor(running: RunningPlugin) {
    this.#running = running;
  }

  /** Makes a staged and published block volume with snapshots and a group snapshot. */
  async prepare(): Promise<void> {
    const { orchestrator } = this.#running;
    this.#volume = await orchestrator.create('conforming');
    await orchestrator.bringUp(this.#volume);
    for (const name of ['first', 'second']) {
      this.#snapshotIds.push(await orchestrator.snapshot(this.#volume, name));
    }
    this.#group = await this.#makeGroup('conforming');
  }

  /** One that has everything the RPC requires, and nothing else. */
  async to(rpc: string): Promise<Message> {
    const { orchestrator, workspace } = this.#running;
    const volume = this.#volume as HeldVolume;
    const volume_id = volume.id;
    const [first, second] = this.#snapshotIds;
    const volume_capability = blockCapability();
    const staging_target_path = volume.stagingPath;
    const group = ({ group_snapshot_id, snapshots }: Message): Message => ({
      group_snapshot_id,
      snapshot_ids: snapshots.map((member: Message) => member['snapshot_id']),
    });
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
        return group(await this.#makeGroup('doomed'));
      case 'GetVolumeGroupSnapshot':
        return group(this.#group);
      case 'NodeStageVolume':
        return { volume_id, staging_target_path, volume_capability };
      case 'NodeUnstageVolume':
        return { volume_id, staging_target_path: workspace.path('nobody') };
      case 'NodePublishVolume': {
        const target_path = volume.targetPath;
        return { volume_id, staging_target_path, target_path, volume_capability };
      }
      case 'NodeUnpublishVolume':
        return { volume_id, target_path: workspace.path('nobody') };
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

  async #makeGroup(name: string): Promise<Message> {
    mkdirSync(this.#running.workspace.path('nobody'), { recursive: true });
    const connection = new RawConnection(this.#running.plugin.endpoint);
    try {
      const request = { name, source_volume_ids: [(this.#volume as HeldVolume).id] };
      const answer = await connection.unary(
        '/csi.v1.GroupController/CreateVolumeGroupSnapshot',
        encodeMessage('CreateVolumeGroupSnapshotRequest', request),
      );
      return decodeMessage('CreateVolumeGroupSnapshotResponse', answer)['group_snapshot'];
    } finally {
      connection.close();
    }
  }
}
