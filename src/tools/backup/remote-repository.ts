/**
 * A repository at a remote of rclone. Images are made in a spool on this machine and then sent; they are read where they are. What
 * several commands do at the remote is in shared-volume.ts.
 */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { RuntimeDirectory } from '../../base/system/runtime-directory.js';
import type { VolumeBackups } from './chains.js';
import { newPaths } from './directory-repository.js';
import { decodeId, encodeId, generationOf, ownStem, snapshotStem } from './file-names.js';
import type { Manifest } from './manifest.js';
import { RcloneStore } from './rclone.js';
import { RemoteImages } from './remote-images.js';
import type { NewBackupPaths, Repository, VolumeLock } from './repository.js';
import { SharedVolume } from './shared-volume.js';
import { Spool } from './spool.js';
import { type Backup, imagePathOf } from './stored-backup.js';

export interface RemoteAccess {
  /** The directory of the spool. */
  spool: string;
  /** Every manifest is read at the remote, also one that the spool has a copy of. */
  readsAll?: boolean;
  /** Holds the sockets of the servers of images. */
  runtime: RuntimeDirectory;
  signal: AbortSignal;
}

export class RemoteRepository implements Repository {
  private constructor(
    private readonly store: RcloneStore,
    private readonly spool: Spool,
    private readonly readsAll: boolean,
    private readonly runtime: RuntimeDirectory,
    private readonly signal: AbortSignal,
  ) {}

  /** Throws FAILED_PRECONDITION if there is no such remote, or others can write to the spool. */
  static async open(location: string, access: RemoteAccess): Promise<RemoteRepository> {
    const { spool, readsAll = false, runtime, signal } = access;
    const store = await RcloneStore.open(location, signal);
    return new RemoteRepository(store, await Spool.open(spool, location), readsAll, runtime, signal);
  }

  get location(): string {
    return this.store.location;
  }

  async all(): Promise<VolumeBackups[]> {
    const names = [...(await this.store.list('')).keys()];
    const directories = new Set(
      names.flatMap((name) => (name.split('/').length === 2 ? [name.replace(/\/.*/s, '')] : [])),
    );
    const volumes: VolumeBackups[] = [];
    for (const name of [...directories].filter(isEncoded).sort()) volumes.push(await this.#volume(name).read());
    return volumes;
  }

  backupsOf(volumeId: string): Promise<VolumeBackups> {
    return this.#volume(encodeId(volumeId)).read();
  }

  async lock(volumeId: string): Promise<VolumeLock> {
    const lock = await this.spool.repository.lock(volumeId);
    try {
      const left = await this.#volume(encodeId(volumeId)).settle();
      return { ...lock, problems: [...lock.problems, ...left] };
    } catch (thrown) {
      lock.release();
      throw thrown;
    }
  }

  async begin(volumeId: string, snapshot: { id: string; creationTime: Date }): Promise<NewBackupPaths> {
    const directory = this.spool.repository.volumeDirectory(volumeId);
    return newPaths(directory, ownStem(snapshotStem(snapshot.id, snapshot.creationTime), 0));
  }

  async beginNext({ manifest }: Backup): Promise<NewBackupPaths> {
    const { id, creationTime } = manifest.snapshot;
    const stem = snapshotStem(id, new Date(creationTime));
    const { backups, superseded } = await this.backupsOf(manifest.volume.id);
    const generations = [...backups, ...superseded].map(({ name }) => (name.startsWith(stem) ? generationOf(name) : 0));
    const directory = this.spool.repository.volumeDirectory(manifest.volume.id);
    return newPaths(directory, ownStem(stem, Math.max(0, ...generations) + 1));
  }

  assertRoom(bytes: bigint): Promise<void> {
    return this.spool.assertRoom(bytes);
  }

  async commit(paths: NewBackupPaths, manifest: Manifest): Promise<Backup> {
    return this.#send(await this.spool.repository.commit(paths, manifest));
  }

  async addWaiting(volumeId: string, onNotice: (message: string) => void): Promise<void> {
    const { backups } = await this.spool.repository.backupsOf(volumeId);
    for (const backup of backups) {
      await this.#send(backup).catch((thrown: unknown) => {
        if (!(thrown instanceof CsiError) || thrown.code !== StatusCode.ABORTED) throw thrown;
        onNotice(thrown.message);
      });
    }
  }

  remove(backup: Backup): Promise<void> {
    return this.#volume(encodeId(backup.manifest.volume.id)).remove(backup);
  }

  close(): Promise<void> {
    return this.store.close();
  }

  /** A backup that was not added because its base is gone is of no use. Any other failure leaves it in the spool. */
  async #send(finished: Backup): Promise<Backup> {
    const paths = { image: imagePathOf(finished), manifest: join(finished.directory, finished.name) };
    try {
      const added = await this.#volume(encodeId(finished.manifest.volume.id)).add(finished, paths);
      await this.spool.repository.remove(finished);
      return added;
    } catch (thrown) {
      if (thrown instanceof CsiError && thrown.code === StatusCode.ABORTED)
        await this.spool.repository.remove(finished);
      throw thrown;
    }
  }

  /** @param directory the name of the volume's directory */
  #volume(directory: string): SharedVolume {
    const { store, spool, runtime, signal } = this;
    const files = {
      id: spool.id,
      manifest: async (name: string) => (this.readsAll ? null : spool.manifest(directory, name)),
      keepManifest: (name: string, text: string) => spool.keepManifest(directory, name, text),
      keepManifestsOf: (names: ReadonlySet<string>) => spool.keepManifestsOf(directory, names),
      withFile: async (name: string, use: (path: string) => Promise<void>): Promise<void> => {
        const path = join(spool.repository.location, directory, name);
        await writeFile(path, 'about to be removed\n', { mode: 0o600 });
        try {
          await use(path);
        } finally {
          await rm(path, { force: true });
        }
      },
    };
    return new SharedVolume(
      store,
      directory,
      files,
      (objects) => new RemoteImages({ store, directory, objects, runtime, signal }),
    );
  }
}

/** Whether the name is one that encodeId gives. */
const isEncoded = (name: string): boolean => name.includes('~') || encodeId(decodeId(name)) === name;
