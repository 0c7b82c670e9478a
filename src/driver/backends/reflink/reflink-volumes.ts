/**
 * The volumes of a reflink pool: their files, the space that the files will take, and the marks of volumes that may hold user
 * data. Leaves devices to volume-files.ts.
 */
import type { FileSystem } from '../../host/file-systems.js';
import { recognizedFileSystem } from '../../host/superblock.js';
import type { PoolObjectId, PoolVolumes, StorageCondition } from '../backend.js';
import type { InitializedMarks } from './initialized-marks.js';
import type { PoolDirectory } from './pool-directory.js';
import type { PoolLayout } from './pool-layout.js';
import type { ReplicaFiles } from './replica-files.js';
import type { SnapshotFiles } from './snapshot-files.js';
import type { SpaceReservations } from './space-reservations.js';
import type { VolumeFiles } from './volume-files.js';

export interface VolumeParts {
  directory: PoolDirectory;
  files: VolumeFiles;
  snapshots: SnapshotFiles;
  replicas: ReplicaFiles;
  marks: InitializedMarks;
  reservations: SpaceReservations;
}

export class ReflinkVolumes implements PoolVolumes {
  constructor(private readonly parts: VolumeParts) {}

  create(
    volumeId: string,
    sizeBytes: bigint,
    source: PoolObjectId | null = null,
    deadline = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const make = () => this.#make(volumeId, sizeBytes, source, deadline);
    return this.#reserved(volumeId, sizeBytes, make);
  }

  async delete(volumeId: string): Promise<void> {
    const { files, marks } = this.parts;
    await files.delete(volumeId);
    await marks.remove(volumeId);
  }

  expand(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    const { files } = this.parts;
    return this.#reserved(volumeId, sizeBytes, () => files.expand(volumeId, sizeBytes));
  }

  check(volumeId: string, sizeBytes: bigint): Promise<void> {
    return this.parts.files.check(volumeId, sizeBytes);
  }

  condition(volumeId: string): Promise<StorageCondition> {
    return this.parts.files.condition(volumeId);
  }

  fileSystemIn(object: PoolObjectId): Promise<FileSystem | null> {
    return this.parts.directory.use(({ layout }) => recognizedFileSystem(pathOf(object, layout)));
  }

  thaw(volumeId: string): Promise<void> {
    return this.parts.files.thaw(volumeId);
  }

  async #make(volumeId: string, sizeBytes: bigint, source: PoolObjectId | null, deadline: number): Promise<void> {
    const { files, snapshots, replicas } = this.parts;
    if (source === null) return files.create(volumeId, sizeBytes);
    if ('volumeId' in source) return files.clone(volumeId, source.volumeId, sizeBytes, deadline);
    try {
      await files.restore(volumeId, (layout) => pathOf(source, layout), sizeBytes);
    } catch (thrown) {
      throw 'replicaId' in source
        ? replicas.explain(source.replicaId, thrown)
        : snapshots.explain(source.snapshotId, thrown);
    }
  }

  /** Reserves the bytes that the volume's file gains, while `make` creates or grows it. */
  async #reserved<T>(volumeId: string, sizeBytes: bigint, make: () => Promise<T>): Promise<T> {
    const { directory, reservations } = this.parts;
    const { entry } = await directory.use(({ native, layout }) =>
      native.run('entryOf', { path: layout.volume(volumeId) }),
    );
    const more = sizeBytes - (entry?.sizeBytes ?? 0n);
    return more > 0n ? reservations.run(more, make) : make();
  }
}

function pathOf(object: PoolObjectId, layout: PoolLayout): string {
  if ('volumeId' in object) return layout.volume(object.volumeId);
  return 'replicaId' in object ? layout.replica(object.replicaId) : layout.snapshot(object.snapshotId);
}
