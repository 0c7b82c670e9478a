/**
 * A conforming orchestrator: creates the directories that CSI requires of it, calls in order, and retries
 * ABORTED. It keeps no state beyond what it returns.
 */
import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { blockCapability, type CsiClient, type Message } from './csi-client.js';
import { statusOf } from './refusal.js';
import type { Workspace } from './workspace.js';

export const MIB = 1 << 20;

export interface VolumeSpec {
  capability?: Message;
  sizeBytes?: number;
  snapshotId?: string;
  /** The volume to clone. */
  volumeId?: string;
  parameters?: Record<string, string>;
}

/** A volume, and the paths this orchestrator uses for it. */
export interface HeldVolume {
  id: string;
  name: string;
  capability: Message;
  sizeBytes: number;
  stagingPath: string;
  targetPath: string;
}

/** A group snapshot, and its members in the order of the source volumes. */
export interface HeldGroup {
  id: string;
  snapshotIds: string[];
}

export class Orchestrator {
  constructor(
    private readonly workspace: Pick<Workspace, 'path'>,
    /** Asked before each call, since a restarted plugin has another one. */
    private readonly clientNow: () => CsiClient,
  ) {}

  async create(name: string, spec: VolumeSpec = {}): Promise<HeldVolume> {
    const capability = spec.capability ?? blockCapability();
    const { volume } = await this.clientNow().controller.CreateVolume(createRequest(name, spec));
    return this.hold(name, volume, capability);
  }

  /** The volume of a CreateVolume answer, with the paths it is used at. */
  hold(name: string, volume: Message, capability: Message = blockCapability()): HeldVolume {
    const id = String(volume['volume_id']);
    return {
      id,
      name,
      capability,
      sizeBytes: Number(volume['capacity_bytes']),
      stagingPath: this.workspace.path('csi', id, 'staging'),
      targetPath: this.target(id, 'pod'),
    };
  }

  /** The path of one publication of the volume. */
  target(volumeId: string, pod: string): string {
    return this.workspace.path('pods', volumeId, pod, 'volume');
  }

  async stage(volume: HeldVolume): Promise<void> {
    await mkdir(volume.stagingPath, { recursive: true });
    await this.clientNow().node.NodeStageVolume({
      volume_id: volume.id,
      staging_target_path: volume.stagingPath,
      volume_capability: volume.capability,
    });
  }

  async publish(
    volume: HeldVolume,
    options: { target?: string; readonly?: boolean; podUid?: string } = {},
  ): Promise<string> {
    const target = options.target ?? volume.targetPath;
    await mkdir(dirname(target), { recursive: true });
    await this.clientNow().node.NodePublishVolume({
      volume_id: volume.id,
      staging_target_path: volume.stagingPath,
      target_path: target,
      volume_capability: volume.capability,
      readonly: options.readonly ?? false,
      ...(options.podUid === undefined ? {} : { volume_context: { 'csi.storage.k8s.io/pod.uid': options.podUid } }),
    });
    return target;
  }

  async unpublish(volume: HeldVolume, target = volume.targetPath): Promise<void> {
    await this.clientNow().node.NodeUnpublishVolume({ volume_id: volume.id, target_path: target });
  }

  async unstage(volume: HeldVolume): Promise<void> {
    await this.clientNow().node.NodeUnstageVolume({ volume_id: volume.id, staging_target_path: volume.stagingPath });
  }

  /** Stages and publishes. Resolves to the target path. */
  async bringUp(volume: HeldVolume): Promise<string> {
    await this.stage(volume);
    return this.publish(volume);
  }

  async takeDown(volume: HeldVolume): Promise<void> {
    await this.unpublish(volume);
    await untilReleased(() => this.unstage(volume));
  }

  async delete(volume: HeldVolume): Promise<void> {
    await this.clientNow().controller.DeleteVolume({ volume_id: volume.id });
  }

  /** Ends the use of volumes, one after the other, and deletes them. */
  async remove(...volumes: readonly HeldVolume[]): Promise<void> {
    for (const volume of volumes) {
      await this.takeDown(volume);
      await this.delete(volume);
    }
  }

  /** Resolves to the snapshot's id. */
  async snapshot(volume: HeldVolume, name = `snapshot ${randomUUID()}`): Promise<string> {
    const { snapshot } = await this.clientNow().controller.CreateSnapshot({ source_volume_id: volume.id, name });
    return String(snapshot.snapshot_id);
  }

  async deleteSnapshot(snapshotId: string): Promise<void> {
    await this.clientNow().controller.DeleteSnapshot({ snapshot_id: snapshotId });
  }

  async groupSnapshot(volumes: readonly HeldVolume[], name: string): Promise<HeldGroup> {
    const { group_snapshot } = await this.clientNow().groups.CreateVolumeGroupSnapshot({
      source_volume_ids: volumes.map(({ id }) => id),
      name,
    });
    const members: Message[] = group_snapshot.snapshots;
    const memberOf = ({ id }: HeldVolume): string => {
      const member = members.find((snapshot) => snapshot['source_volume_id'] === id);
      return String(member?.['snapshot_id']);
    };
    return { id: String(group_snapshot.group_snapshot_id), snapshotIds: volumes.map(memberOf) };
  }

  async deleteGroup(group: HeldGroup): Promise<void> {
    await this.clientNow().groups.DeleteVolumeGroupSnapshot({
      group_snapshot_id: group.id,
      snapshot_ids: group.snapshotIds,
    });
  }

  /** Resolves to the new size. */
  async expand(volume: HeldVolume, sizeBytes: number): Promise<number> {
    const { capacity_bytes } = await this.clientNow().controller.ControllerExpandVolume({
      volume_id: volume.id,
      capacity_range: { required_bytes: sizeBytes, limit_bytes: sizeBytes },
    });
    return Number(capacity_bytes);
  }

  /** At its target path. */
  async nodeExpand(volume: HeldVolume): Promise<void> {
    await this.clientNow().node.NodeExpandVolume({ volume_id: volume.id, volume_path: volume.targetPath });
  }

  /** Where controller publishing is switched on. */
  async controllerPublish(volume: HeldVolume): Promise<void> {
    await this.clientNow().controller.ControllerPublishVolume({
      volume_id: volume.id,
      node_id: 'test-node',
      volume_capability: volume.capability,
    });
  }

  async controllerUnpublish(volume: HeldVolume): Promise<void> {
    const request = { volume_id: volume.id, node_id: 'test-node' };
    await this.clientNow().controller.ControllerUnpublishVolume(request);
  }

  async modify(volume: HeldVolume, parameters: Record<string, string>): Promise<void> {
    await this.clientNow().controller.ControllerModifyVolume({ volume_id: volume.id, mutable_parameters: parameters });
  }

  async volumeIds(): Promise<string[]> {
    const { entries } = await this.clientNow().controller.ListVolumes({});
    return entries.map((entry: Message) => String(entry['volume'].volume_id));
  }

  async snapshotIds(): Promise<string[]> {
    const { entries } = await this.clientNow().controller.ListSnapshots({});
    return entries.map((entry: Message) => String(entry['snapshot'].snapshot_id));
  }
}

export function createRequest(name: string, spec: VolumeSpec = {}): Message {
  const sizeBytes = spec.sizeBytes ?? 8 * MIB;
  return {
    name,
    capacity_range: { required_bytes: sizeBytes, limit_bytes: sizeBytes },
    volume_capabilities: [spec.capability ?? blockCapability()],
    parameters: spec.parameters ?? {},
    ...contentSource(spec),
  };
}

function contentSource({ snapshotId, volumeId }: VolumeSpec): Message {
  if (snapshotId !== undefined) {
    return { volume_content_source: { snapshot: { snapshot_id: snapshotId } } };
  }
  if (volumeId === undefined) return {};
  return { volume_content_source: { volume: { volume_id: volumeId } } };
}

/** What an orchestrator answers with the same call again: others may still hold the device. */
const IN_USE: readonly string[] = ['FAILED_PRECONDITION', 'ABORTED', 'UNAVAILABLE'];
const IN_USE_TIMEOUT_MS = 120_000;
const LONGEST_PAUSE_MS = 2000;

/** Repeats a call as long as something is in use, with growing pauses, for two minutes at most. */
export async function untilReleased<T>(call: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + IN_USE_TIMEOUT_MS;
  for (let pause = 50; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
    const attempt = call();
    const status = await statusOf(attempt);
    if (!IN_USE.includes(status) || Date.now() > deadline) return attempt;
    await delay(pause);
  }
}

/** Repeats a call for as long as it is answered ABORTED, at most 30 seconds. */
export async function untilSettled<T>(call: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    const attempt = call();
    const status = await statusOf(attempt);
    if (status !== 'ABORTED' || Date.now() > deadline) return attempt;
    await delay(5);
  }
}
