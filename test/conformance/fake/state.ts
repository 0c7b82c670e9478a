/**
 * The state of a fake driver: volumes in files, snapshots in memory, groups, and its options. All changes are
 * synchronous, and the suite runs in the same process: no call and no write of the suite comes in between.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { allocatedBlocks, attach, type Device, detach, flush, makeFile, unbind } from './disk.js';
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
  device: Device | null;
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
  sizeBytes: number;
  createdMs: number;
  groupId: string;
  bytes: Buffer;
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

  volume(id: string): Volume {
    return known(this.volumes, 'volume', id);
  }

  snapshot(id: string): Snapshot {
    return known(this.snapshots, 'snapshot', id);
  }

  group(id: string): Group {
    return known(this.groups, 'group', id);
  }

  snapshotsOf(volumeId: string): Snapshot[] {
    return [...this.snapshots.values()].filter((snapshot) => snapshot.volumeId === volumeId);
  }

  makeVolume(
    spec: Pick<Volume, 'name' | 'sizeBytes' | 'parameters' | 'source'>,
    from: Volume | Snapshot | null,
  ): Volume {
    const sequence = this.next();
    const id = `fake-volume-${sequence}`;
    const path = join(this.directory, `${id}.img`);
    const { bytes, allocated } = from === null ? NOTHING : contentOf(from);
    makeFile(path, spec.sizeBytes, bytes, allocated);
    const unused = { device: null, stagingPath: null, publications: new Map() };
    const volume = { ...spec, sequence, id, path, inherited: allocated, ...unused };
    this.volumes.set(id, volume);
    return volume;
  }

  takeSnapshot(volume: Volume, name: string, groupId = ''): Snapshot {
    const sequence = this.next();
    const id = `fake-snapshot-${sequence}`;
    const { id: volumeId, sizeBytes } = volume;
    const what = { sequence, id, name, volumeId, sizeBytes, createdMs: Date.now(), groupId };
    const snapshot = { ...what, ...contentOf(volume) };
    this.snapshots.set(id, snapshot);
    return snapshot;
  }

  stage(volume: Volume, stagingPath: string): void {
    volume.device ??= attach(volume.path);
    volume.stagingPath = stagingPath;
  }

  unstage(volume: Volume): void {
    if (volume.device !== null) detach(volume.device);
    volume.device = null;
    volume.stagingPath = null;
  }

  /** Unmounts and detaches everything that is left. */
  release(): void {
    for (const volume of this.volumes.values()) {
      for (const target of volume.publications.keys()) unbind(target);
      this.unstage(volume);
    }
  }
}

type Content = Pick<Snapshot, 'bytes' | 'allocated'>;

const NOTHING: Content = { bytes: Buffer.alloc(0), allocated: [] };

/** What it holds now; a volume is flushed. */
export function contentOf(of: Volume | Snapshot): Content {
  if ('bytes' in of) return of;
  if (of.device !== null) flush(of.device.path);
  return { bytes: readFileSync(of.path), allocated: allocatedBlocks(of.path) };
}

function known<T>(all: ReadonlyMap<string, T>, kind: string, id: string): T {
  const found = all.get(id);
  if (found === undefined) throw refusal('NOT_FOUND', `there is no ${kind} '${id}'`);
  return found;
}
