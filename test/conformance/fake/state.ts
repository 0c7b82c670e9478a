/** The state of a fake driver: volumes, snapshots, groups, and its options. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import {
  allocatedBlocks,
  attach,
  copyTo,
  detach,
  flush,
  makeFile,
  sectorsWritten,
  unbind,
} from './disk.js';
import { type Message, refusal } from './refusal.js';

export interface Volume {
  sequence: number;
  id: string;
  name: string;
  path: string;
  sizeBytes: number;
  parameters: Message;
  /** From the request; null for an empty volume. */
  source: Message | null;
  /** Blocks that were allocated in the source of the volume. */
  inherited: readonly number[];
  /** The loop device, while staged. */
  device: string | null;
  stagingPath: string | null;
  /** Read-only flag and access mode by target path. */
  publications: Map<string, { readOnly: boolean; mode: string }>;
}

export interface Snapshot {
  sequence: number;
  id: string;
  /** Empty for members of a group. */
  name: string;
  volumeId: string;
  path: string;
  sizeBytes: number;
  createdMs: number;
  groupId: string;
  /** Blocks that were written, including with zeros; in order. */
  allocated: readonly number[];
}

export interface Group {
  id: string;
  name: string;
  snapshotIds: string[];
  createdMs: number;
}

export interface FakeOptions {
  metadataType?: 'VARIABLE_LENGTH' | 'FIXED_LENGTH';
  /** Volumes with snapshots cannot be deleted. */
  dependentSnapshots?: boolean;
  /** Entries are clipped at starting_offset instead of starting before it. */
  clipped?: boolean;
  /** Names of controller, node and plugin capabilities that the driver does not have. */
  without?: readonly string[];
}

export class State {
  readonly volumes = new Map<string, Volume>();
  readonly snapshots = new Map<string, Snapshot>();
  readonly groups = new Map<string, Group>();
  #sequence = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    readonly directory: string,
    readonly options: FakeOptions,
  ) {}

  next(): number {
    this.#sequence += 1;
    return this.#sequence;
  }

  has(capability: string): boolean {
    return !(this.options.without ?? []).includes(capability);
  }

  /** Serializes all changes. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  volume(id: string): Volume {
    const found = this.volumes.get(id);
    if (found === undefined) throw refusal('NOT_FOUND', `there is no volume '${id}'`);
    return found;
  }

  snapshot(id: string): Snapshot {
    const found = this.snapshots.get(id);
    if (found === undefined) throw refusal('NOT_FOUND', `there is no snapshot '${id}'`);
    return found;
  }

  snapshotsOf(volumeId: string): Snapshot[] {
    return [...this.snapshots.values()].filter((snapshot) => snapshot.volumeId === volumeId);
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  async makeVolume(
    spec: Pick<Volume, 'name' | 'sizeBytes' | 'parameters' | 'source'>,
    from: Volume | Snapshot | null,
  ): Promise<Volume> {
    const sequence = this.next();
    const id = `fake-volume-${sequence}`;
    const path = this.path(`${id}.img`);
    let inherited: readonly number[] = [];
    if (from === null) await makeFile(path, spec.sizeBytes);
    else {
      if ('device' in from && from.device !== null) await flush(from.device);
      inherited = await this.#allocated(from);
      await copyTo(from.path, path, spec.sizeBytes);
    }
    const volume = {
      ...spec,
      sequence,
      id,
      path,
      inherited,
      device: null,
      stagingPath: null,
      publications: new Map(),
    };
    this.volumes.set(id, volume);
    return volume;
  }

  async makeSnapshot(volume: Volume, name: string): Promise<Snapshot> {
    if (volume.device !== null) await flush(volume.device);
    const snapshot = await this.#takeSnapshot(volume, name, '');
    snapshot.allocated = await this.#allocated(volume);
    return snapshot;
  }

  /** Copies taken at one point in time; null if a write came in between. */
  async makeMembers(volumes: readonly Volume[], groupId: string): Promise<Snapshot[] | null> {
    for (const { device } of volumes) if (device !== null) await flush(device);
    const before = await written(volumes);
    const members: Snapshot[] = [];
    for (const volume of volumes) members.push(await this.#takeSnapshot(volume, '', groupId));
    if ((await written(volumes)) === before) {
      // Blocks allocated since the copy are reported as well, which is harmless.
      for (const member of members) {
        member.allocated = await this.#allocated(this.volume(member.volumeId));
      }
      return members;
    }
    for (const { id } of members) await this.forget(id);
    return null;
  }

  async forget(snapshotId: string): Promise<void> {
    const { path } = this.snapshot(snapshotId);
    this.snapshots.delete(snapshotId);
    await rm(path, { force: true });
  }

  async #takeSnapshot(volume: Volume, name: string, groupId: string): Promise<Snapshot> {
    const sequence = this.next();
    const id = `fake-snapshot-${sequence}`;
    const path = this.path(`${id}.img`);
    const createdMs = Date.now();
    await copyTo(volume.path, path, volume.sizeBytes);
    const { id: volumeId, sizeBytes } = volume;
    const what = { sequence, id, name, volumeId, path, sizeBytes, createdMs, groupId };
    const snapshot = { ...what, allocated: [] };
    this.snapshots.set(id, snapshot);
    return snapshot;
  }

  async #allocated(of: Volume | Snapshot): Promise<readonly number[]> {
    if ('allocated' in of) return of.allocated;
    const blocks = new Set([...of.inherited, ...(await allocatedBlocks(of.path))]);
    return [...blocks].sort((a, b) => a - b);
  }

  async stage(volume: Volume, stagingPath: string): Promise<void> {
    volume.device ??= await attach(volume.path);
    volume.stagingPath = stagingPath;
  }

  async unstage(volume: Volume): Promise<void> {
    if (volume.device !== null) await detach(volume.device);
    volume.device = null;
    volume.stagingPath = null;
  }

  /** Unmounts and detaches everything that is left. */
  async release(): Promise<void> {
    for (const volume of this.volumes.values()) {
      for (const target of volume.publications.keys()) await unbind(target).catch(() => undefined);
      await this.unstage(volume).catch(() => undefined);
    }
  }
}

async function written(volumes: readonly Volume[]): Promise<string> {
  const counts = volumes.map(({ device }) => (device === null ? '-' : sectorsWritten(device)));
  return (await Promise.all(counts)).join();
}
