/**
 * What the catalogue remembers: only what the kernel cannot know. No rule lives here.
 *
 * Times are ns since the epoch, sizes bytes, both bigint. `null` is absent.
 */
import type { VolumeCapability } from '../csi/fields.js';

/**
 * creating: made, or half made, by a CreateVolume that has not answered; deleting: on its way out;
 * deleted: gone, kept as the lineage of snapshots that outlive it.
 */
export type VolumeState = 'creating' | 'ready' | 'deleting' | 'deleted';
export type SnapshotState = 'creating' | 'ready' | 'deleting';

export interface VolumeRecord {
  volumeId: string;
  name: string;
  pool: string;
  sizeBytes: bigint;
  state: VolumeState;
  /** As asked for at creation, for the idempotence rules. */
  parameters: Readonly<Record<string, string>>;
  capabilities: readonly VolumeCapability[];
  /** The snapshot the content came from; it may be gone since. */
  sourceSnapshotId: string | null;
  /**
   * True until the volume has been handed out for the first time: nobody but us has ever written to
   * it, so making a file system on it, also a second time after a kill, destroys nothing.
   */
  fresh: boolean;
  createdNs: bigint;
}

export interface SnapshotRecord {
  snapshotId: string;
  name: string;
  volumeId: string;
  pool: string;
  sizeBytes: bigint;
  state: SnapshotState;
  /** Order of the cuts on this node; a higher number was cut later. */
  sequence: bigint;
  creationTimeNs: bigint;
  parameters: Readonly<Record<string, string>>;
  /** The volume was fresh when it was cut, and so is a volume restored from it. */
  fresh: boolean;
}

/** The capability a volume was staged with; whether it is staged now, mountinfo says. */
export interface StagingRecord {
  volumeId: string;
  stagingPath: string;
  capability: VolumeCapability;
}

export interface PublicationRecord {
  targetPath: string;
  volumeId: string;
  stagingPath: string;
  capability: VolumeCapability;
  readOnly: boolean;
}

/** Everything a start-up has to finish or undo. */
export interface UnfinishedWork {
  volumes: VolumeRecord[];
  snapshots: SnapshotRecord[];
}

/**
 * The catalogue's calls. Each is one durable transaction (WAL, synchronous=FULL): when it returns,
 * a power cut does not undo it. Broken uniqueness is a CsiError ALREADY_EXISTS.
 */
export interface Catalogue {
  /** Of this catalogue, made with it: whom a pool belongs to. */
  uuid(): string;
  /** The identity of a pool that has been served before; null for a new one. */
  poolUuid(name: string): string | null;
  /**
   * The pool's recorded identity; records `poolUuid` if the name is new. FAILED_PRECONDITION if that
   * identity is known by another name.
   */
  registerPool(name: string, poolUuid: string): string;

  volumeById(volumeId: string): VolumeRecord | null;
  /** Of volumes that are not deleted. */
  volumeByName(name: string): VolumeRecord | null;
  /** Ready volumes in the order of their ids. */
  listVolumes(): VolumeRecord[];
  insertVolume(volume: VolumeRecord): void;
  setVolumeState(volumeId: string, state: VolumeState): void;
  /** The volume is handed out: it is never formatted again from now on. */
  markVolumeUsed(volumeId: string): void;
  /** Drops the volume with its stagings and publications; keeps a `deleted` row while snapshots refer to it. */
  removeVolume(volumeId: string): void;

  snapshotById(snapshotId: string): SnapshotRecord | null;
  snapshotByName(name: string): SnapshotRecord | null;
  /** Ready snapshots in the order of their ids. */
  listSnapshots(): SnapshotRecord[];
  /** Assigns the sequence. */
  insertSnapshot(snapshot: Omit<SnapshotRecord, 'sequence'>): SnapshotRecord;
  commitSnapshot(snapshotId: string, creationTimeNs: bigint, sizeBytes: bigint): SnapshotRecord;
  setSnapshotState(snapshotId: string, state: SnapshotState): void;
  /** Also drops the `deleted` row of its volume when it was the last one. */
  removeSnapshot(snapshotId: string): void;

  stagings(volumeId: string): StagingRecord[];
  putStaging(staging: StagingRecord): void;
  removeStaging(volumeId: string, stagingPath: string): void;
  publications(volumeId: string): PublicationRecord[];
  publicationAt(targetPath: string): PublicationRecord | null;
  putPublication(publication: PublicationRecord): void;
  removePublication(targetPath: string): void;

  unfinished(): UnfinishedWork;
}

/** The same calls, answered by the thread that owns the database. */
export type AsyncCatalogue = {
  [K in keyof Catalogue]: (...args: Parameters<Catalogue[K]>) => Promise<ReturnType<Catalogue[K]>>;
};
