/**
 * Creates, publishes and deletes volumes and snapshots of any driver in the order of the specification. Deletes what it
 * has created, and nothing else: each object's end is registered with the cleanup as soon as its name is known.
 */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Cleanup } from '../cleanup.js';
import type { CsiConnection, Message } from '../csi-connection.js';
import type { Workspace } from '../workspace.js';

export interface OrchestratorOptions {
  connection: CsiConnection;
  workspace: Workspace;
  cleanup: Cleanup;
  /** Of CreateVolume, for drivers that need some. */
  parameters: Readonly<Record<string, string>>;
  /** Begins the name of each object. */
  prefix: string;
}

/** Of a published raw block volume. */
export interface PublishedVolume {
  volumeId: string;
  sizeBytes: number;
  /** The device, as a path on this machine. */
  device: string;
}

interface Capabilities {
  stages: boolean;
  controllerPublishes: boolean;
  isConstrained: boolean;
  nodeId: string;
  topology: Message | null;
}

const CAPABILITY = {
  block: {},
  access_mode: { mode: 'SINGLE_NODE_WRITER' },
};
const READY_PAUSE_MS = 100;

export class Orchestrator {
  readonly #options: OrchestratorOptions;
  #capabilities: Promise<Capabilities> | undefined;
  #made = 0;

  constructor(options: OrchestratorOptions) {
    this.#options = options;
  }

  /** A new raw block volume, on this node. */
  async createVolume(sizeBytes: number): Promise<PublishedVolume> {
    const { connection, cleanup, parameters } = this.#options;
    const { isConstrained, topology } = await this.#driver();
    const name = this.#name('volume');
    const segments = { requisite: [{ segments: topology }], preferred: [{ segments: topology }] };
    const { volume } = await connection.call('Controller', 'CreateVolume', {
      name,
      capacity_range: { required_bytes: String(sizeBytes) },
      volume_capabilities: [CAPABILITY],
      parameters,
      ...(isConstrained && topology !== null ? { accessibility_requirements: segments } : {}),
    });
    const {
      volume_id: volumeId,
      volume_context: context,
      capacity_bytes: capacity,
    } = volume as {
      volume_id: string;
      volume_context: Message;
      capacity_bytes: string;
    };
    cleanup.defer(async () => {
      await connection.call('Controller', 'DeleteVolume', { volume_id: volumeId });
    });
    const device = await this.#publish(volumeId, context, name);
    return { volumeId, device, sizeBytes: Number(capacity) || sizeBytes };
  }

  /** Resolves to the id when the snapshot is ready to use. */
  async createSnapshot(volumeId: string): Promise<string> {
    const { connection, cleanup } = this.#options;
    const name = this.#name('snapshot');
    let isRegistered = false;
    for (;;) {
      const answer = await connection.call('Controller', 'CreateSnapshot', {
        name,
        source_volume_id: volumeId,
      });
      const { snapshot_id: id, ready_to_use: isReady } = answer['snapshot'] as {
        snapshot_id: string;
        ready_to_use: boolean;
      };
      if (!isRegistered) {
        cleanup.defer(async () => {
          await connection.call('Controller', 'DeleteSnapshot', { snapshot_id: id });
        });
        isRegistered = true;
      }
      if (isReady) return id;
      await delay(READY_PAUSE_MS);
    }
  }

  async #publish(volumeId: string, context: Message, name: string): Promise<string> {
    const { connection, cleanup, workspace } = this.#options;
    const { stages, controllerPublishes, nodeId } = await this.#driver();
    const request = { volume_id: volumeId, volume_capability: CAPABILITY, volume_context: context };
    let publishContext: unknown = {};
    if (controllerPublishes) {
      const answer = await connection.call('Controller', 'ControllerPublishVolume', {
        ...request,
        node_id: nodeId,
      });
      publishContext = answer['publish_context'];
      cleanup.defer(async () => {
        const ended = { volume_id: volumeId, node_id: nodeId };
        await connection.call('Controller', 'ControllerUnpublishVolume', ended);
      });
    }
    const staging = workspace.path('staging', name);
    const target = workspace.path('published', name);
    const publish = { ...request, publish_context: publishContext };
    if (stages) {
      mkdirSync(staging, { recursive: true });
      const where = { volume_id: volumeId, staging_target_path: staging };
      cleanup.defer(async () => {
        await connection.call('Node', 'NodeUnstageVolume', where);
      });
      await connection.call('Node', 'NodeStageVolume', {
        ...publish,
        staging_target_path: staging,
      });
    }
    mkdirSync(dirname(target), { recursive: true });
    cleanup.defer(async () => {
      const where = { volume_id: volumeId, target_path: target };
      await connection.call('Node', 'NodeUnpublishVolume', where);
    });
    await connection.call('Node', 'NodePublishVolume', {
      ...publish,
      ...(stages ? { staging_target_path: staging } : {}),
      target_path: target,
    });
    return target;
  }

  #driver(): Promise<Capabilities> {
    this.#capabilities ??= this.#ask();
    return this.#capabilities;
  }

  async #ask(): Promise<Capabilities> {
    const { connection } = this.#options;
    const plugin = await connection.call('Identity', 'GetPluginCapabilities', {});
    const controller = await connection.call('Controller', 'ControllerGetCapabilities', {});
    const node = await connection.call('Node', 'NodeGetCapabilities', {});
    const info = await connection.call('Node', 'NodeGetInfo', {});
    const has = (answer: Message, kind: string, name: string): boolean =>
      (answer['capabilities'] as Record<string, { type: string } | null>[]).some(
        (each) => each[kind]?.type === name,
      );
    if (!has(plugin, 'service', 'SNAPSHOT_METADATA_SERVICE')) {
      throw new Error('the driver does not serve SnapshotMetadata (GetPluginCapabilities)');
    }
    if (!has(controller, 'rpc', 'CREATE_DELETE_SNAPSHOT')) {
      throw new Error('the driver takes no snapshots (ControllerGetCapabilities)');
    }
    const topology = info['accessible_topology'] as { segments: Message } | null;
    return {
      stages: has(node, 'rpc', 'STAGE_UNSTAGE_VOLUME'),
      controllerPublishes: has(controller, 'rpc', 'PUBLISH_UNPUBLISH_VOLUME'),
      isConstrained: has(plugin, 'service', 'VOLUME_ACCESSIBILITY_CONSTRAINTS'),
      nodeId: String(info['node_id']),
      topology: topology?.segments ?? null,
    };
  }

  #name(kind: string): string {
    this.#made += 1;
    return `${this.#options.prefix}-${kind}-${this.#made}`;
  }
}
