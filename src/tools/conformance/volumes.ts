/**
 * Creates, publishes and deletes volumes, snapshots and groups in the order a conforming orchestrator
 * does. `cleanUp` deletes whatever was created here, newest first, also after a failure.
 */
import { mkdir, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';
import { publish, topologyRequirement, undoSteps } from '../client/publication.js';
import type { Advertised } from './advertised.js';
import { type Cleanup, CleanupList } from './cleanup-list.js';
import { ConformanceFailure } from './failure.js';
import type { Driver } from './judged-driver.js';
import type { Message } from './objects.js';
import {
  capabilityOf,
  type Group,
  groupOf,
  groupRequest,
  type Snapshot,
  snapshotOf,
  sourceOf,
  type Volume,
  type VolumeSpec,
} from './objects.js';
import { type StringMap, type SuiteOptions, volumeSizeOf } from './options.js';
import { describeRefusal, type Refusal } from './refusal.js';

export interface VolumesDependencies {
  readonly driver: Driver;
  readonly options: SuiteOptions;
  readonly advertised: Advertised;
  /** Part of every name; different in every run. */
  readonly runName: string;
}

const READY_PAUSE_MS = 200;
/** Statuses after which the driver may have completed, or may still be running, the call. */
const UNKNOWN_OUTCOME: readonly number[] = [
  StatusCode.CANCELLED,
  StatusCode.UNKNOWN,
  StatusCode.DEADLINE_EXCEEDED,
  StatusCode.ABORTED,
  StatusCode.INTERNAL,
  StatusCode.UNAVAILABLE,
];
export class Volumes {
  readonly #cleanups = new CleanupList();
  #made = 0;

  constructor(
    private readonly deps: VolumesDependencies,
    /** Part of every name, such as the id of a check. */
    private readonly label: string,
  ) {}

  name(): string {
    this.#made += 1;
    return `${this.deps.runName}-${this.label}-${this.#made}`;
  }

  createRequest(name: string, spec: VolumeSpec): Message {
    const { options, advertised } = this.deps;
    const isConstrained = advertised.plugin.has('VOLUME_ACCESSIBILITY_CONSTRAINTS');
    const segments = isConstrained ? (advertised.nodeInfo?.topology ?? null) : null;
    return {
      name,
      capacity_range: {
        required_bytes: String(this.#sizeOf(spec)),
      },
      volume_capabilities: [capabilityOf(spec.access, options.mountFileSystem)],
      parameters: options.parameters,
      ...sourceOf(spec),
      ...topologyRequirement(segments),
    };
  }

  async create(spec: VolumeSpec): Promise<Volume> {
    const name = this.name();
    const request = this.createRequest(name, spec);
    const { volume } = await this.#make('CreateVolume', request, ({ volume: made }) => ({
      rpc: 'DeleteVolume',
      request: { volume_id: made.volume_id },
    }));
    return this.adopt(name, spec, volume);
  }

  /** Registers a volume that a check has created with its own call, so that it is deleted at the end. */
  adopt(name: string, spec: VolumeSpec, volume: Message): Volume {
    const id = String(volume['volume_id']);
    this.#cleanups.push({ key: `volume ${id}`, rpc: 'DeleteVolume', request: { volume_id: id } });
    const capacity = Number(volume['capacity_bytes']);
    const { options } = this.deps;
    return {
      id,
      access: spec.access,
      capability: capabilityOf(spec.access, options.mountFileSystem),
      // 0 means unknown: assume the size that was asked for.
      sizeBytes: capacity === 0 ? this.#sizeOf(spec) : capacity,
      context: (volume['volume_context'] ?? {}) as StringMap,
      stagingPath: join(options.workDirectory, name, 'staging'),
      targetPath: join(options.workDirectory, name, 'pod', 'target'),
    };
  }

  /** Returns null if the volume is deleted, and otherwise the refusal, for the caller to judge. */
  async delete(volume: Volume): Promise<Refusal | null> {
    const { refusal } = await this.deps.driver.outcome('DeleteVolume', { volume_id: volume.id });
    if (refusal === null) this.#cleanups.forget(`volume ${volume.id}`);
    return refusal;
  }

  /** Expands on the controller, and on the node if required. Updates `volume.sizeBytes`. */
  async expand(volume: Volume, sizeBytes: number): Promise<void> {
    const { driver, advertised } = this.deps;
    const isOnline = advertised.expansion.has('ONLINE');
    if (!isOnline) await this.unpublish(volume);
    const range = { capacity_range: { required_bytes: String(sizeBytes) } };
    const common = { volume_id: volume.id, volume_capability: volume.capability, ...range };
    const answer = await driver.call('ControllerExpandVolume', common);
    volume.sizeBytes = Number(answer['capacity_bytes']);
    if (!isOnline) await this.publish(volume);
    if (answer['node_expansion_required'] !== true) return;
    await driver.call('NodeExpandVolume', {
      ...common,
      volume_path: volume.targetPath,
      ...(advertised.node?.has('STAGE_UNSTAGE_VOLUME') ? { staging_target_path: volume.stagingPath } : {}),
    });
  }

  /** Attaches, stages and publishes. Resolves to the target path. */
  async publish(volume: Volume): Promise<string> {
    const { driver } = this.deps;
    const { capabilities, use } = this.#useOf(volume);
    await mkdir(volume.stagingPath, { recursive: true });
    await mkdir(dirname(volume.targetPath), { recursive: true });
    const call = (rpc: string, request: Message) => driver.call(rpc, request);
    await publish(call, capabilities, use, (undo) => this.#cleanups.push({ key: `${undo.rpc} ${volume.id}`, ...undo }));
    return volume.targetPath;
  }

  async unpublish(volume: Volume): Promise<void> {
    const { capabilities, use } = this.#useOf(volume);
    for (const { rpc } of undoSteps(capabilities, use))
      await this.#cleanups.run(`${rpc} ${volume.id}`, this.deps.driver);
  }

  /** Repeats CreateSnapshot, as an orchestrator does, until the snapshot is ready to use. */
  async snapshot(volume: Volume): Promise<Snapshot> {
    const { options } = this.deps;
    const request = {
      source_volume_id: volume.id,
      name: this.name(),
      parameters: options.snapshotParameters,
    };
    const deadline = Date.now() + options.timeoutMs;
    for (let isKnown = false; ; ) {
      const { snapshot } = await this.#make('CreateSnapshot', request, ({ snapshot: made }) => ({
        rpc: 'DeleteSnapshot',
        request: { snapshot_id: made.snapshot_id },
      }));
      if (!isKnown) this.adoptSnapshot(snapshot);
      isKnown = true;
      if (snapshot.ready_to_use === true) return snapshotOf(snapshot);
      if (Date.now() > deadline) {
        throw new ConformanceFailure('CreateSnapshot', 'ready_to_use in time', 'false');
      }
      await delay(READY_PAUSE_MS);
    }
  }

  adoptSnapshot(snapshot: Message): Snapshot {
    const taken = snapshotOf(snapshot);
    this.#cleanups.push({
      key: `snapshot ${taken.id}`,
      rpc: 'DeleteSnapshot',
      request: { snapshot_id: taken.id },
    });
    return taken;
  }

  async deleteSnapshot(snapshot: Snapshot): Promise<void> {
    await this.#cleanups.run(`snapshot ${snapshot.id}`, this.deps.driver);
  }

  /** Call this for a snapshot that a check has deleted itself. */
  forgetSnapshot(snapshot: Snapshot): void {
    this.#cleanups.forget(`snapshot ${snapshot.id}`);
  }

  async createGroup(volumes: readonly Volume[], name = this.name()): Promise<Group> {
    const request = {
      name,
      source_volume_ids: volumes.map(({ id }) => id),
      parameters: this.deps.options.snapshotParameters,
    };
    const answer = await this.#make('CreateVolumeGroupSnapshot', request, (made) => ({
      rpc: 'DeleteVolumeGroupSnapshot',
      request: groupRequest(groupOf(made['group_snapshot'])),
    }));
    return this.adoptGroup(answer['group_snapshot']);
  }

  adoptGroup(answer: Message): Group {
    const group = groupOf(answer);
    this.#cleanups.push({
      key: `group ${group.id}`,
      rpc: 'DeleteVolumeGroupSnapshot',
      request: groupRequest(group),
    });
    return group;
  }

  /** Call this for a group that a check has deleted itself. */
  forgetGroup(group: Group): void {
    this.#cleanups.forget(`group ${group.id}`);
  }

  async deleteGroup(group: Group): Promise<void> {
    await this.#cleanups.run(`group ${group.id}`, this.deps.driver);
  }

  /** Deletes what is left, newest first. Resolves to the failures. */
  async cleanUp(driver: Driver): Promise<string[]> {
    const problems = await this.#cleanups.runAll(driver);
    const { workDirectory } = this.deps.options;
    for (let count = 1; count <= this.#made; count += 1) {
      const directory = join(workDirectory, `${this.deps.runName}-${this.label}-${count}`);
      // Only rmdir is safe: the content of a volume that the driver left mounted must survive.
      for (const part of ['pod', 'staging', '']) {
        await rmdir(join(directory, part)).catch(() => undefined);
      }
    }
    return problems;
  }

  /** Runs a create call. If the outcome is unknown, the cleanup finds out whether the call created anything. */
  async #make(rpc: string, request: Message, cleanupOf: NonNullable<Cleanup['cleanupOf']>): Promise<Message> {
    const key = `${rpc} ${request['name']}`;
    this.#cleanups.push({ key, rpc, request, cleanupOf });
    const { response, refusal } = await this.deps.driver.outcome(rpc, request);
    if (refusal === null || !UNKNOWN_OUTCOME.includes(refusal.code)) this.#cleanups.forget(key);
    if (refusal !== null) throw new ConformanceFailure(rpc, 'OK', describeRefusal(refusal));
    return response;
  }

  #sizeOf({ access, sizeBytes }: VolumeSpec): number {
    return sizeBytes ?? volumeSizeOf(this.deps.options, access);
  }

  #useOf({ id, capability, context, stagingPath, targetPath }: Volume) {
    const { controller, node, nodeInfo } = this.deps.advertised;
    const capabilities = {
      controller,
      node: node ?? new Set<string>(),
      nodeId: nodeInfo?.nodeId ?? '',
    };
    return { capabilities, use: { volumeId: id, capability, context, stagingPath, targetPath } };
  }
}
