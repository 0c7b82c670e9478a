/** What a fake driver knows: volumes, snapshots, groups, and the options it runs with. */
import { join } from 'node:path';
import { allocatedBlocks, attach, copyFile, detach, flush, makeFile, unbind } from './disk.js';
import { type Message, refusal } from './refusal.js';

export interface Volume {
  sequence: number;
  id: string;
  name: string;
  path: string;
  sizeBytes: number;
  parameters: Message;
  /** As the request gave it; null for an empty volume. */
  source: Message | null;
  /** Blocks that were allocated in what the volume was made from. */
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
  /** Blocks that were the target of a write, zeros too; in order. */
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
  /** Entries are cut at starting_offset, instead of beginning before it. */
  clipped?: boolean;
  /** Capabilities the driver goes without: names of controller, node and plugin capabilities. */
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

  /** Runs what changes anything one after the other. */
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
    wish: Pick<Volume, 'name' | 'sizeBytes' | 'parameters' | 'source'>,
    from: Volume | Snapshot | null,
  ): Promise<Volume> {
    const sequence = this.next();
    const id = `fake-volume-${sequence}`;
    const path = this.path(`${id}.img`);
    let inherited: readonly number[] = [];
    if (from === null) await makeFile(path, wish.sizeBytes);
    else {
      inherited = await this.#settle(from);
      await copyFile(from.path, path, wish.sizeBytes);
    }
    const volume = {
      ...wish,
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

  async makeSnapshot(volume: Volume, name: string, groupId = ''): Promise<Snapshot> {
    const sequence = this.next();
    const id = `fake-snapshot-${sequence}`;
    const path = this.path(`${id}.img`);
    const createdMs = Date.now();
    const allocated = await this.#settle(volume);
    await copyFile(volume.path, path, volume.sizeBytes);
    const { id: volumeId, sizeBytes } = volume;
    const what = { sequence, id, name, volumeId, path, sizeBytes };
    const snapshot = { ...what, createdMs, groupId, allocated };
    this.snapshots.set(id, snapshot);
    return snapshot;
  }

  /** Brings everything written into the file. Resolves to the blocks allocated in it. */
  async #settle(of: Volume | Snapshot): Promise<readonly number[]> {
    if ('allocated' in of) return of.allocated;
    if (of.device !== null) await flush(of.device);
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

  /** Unmounts and detaches whatever is left. */
  async release(): Promise<void> {
    for (const volume of this.volumes.values()) {
      for (const target of volume.publications.keys()) await unbind(target).catch(() => undefined);
      await this.unstage(volume).catch(() => undefined);
    }
  }
}
