/**
 * A place with the backups of volumes: a directory (directory-repository.ts), or a remote (remote-repository.ts). An image with a
 * manifest never changes and never gets another name.
 */
import type { VolumeBackups } from './chains.js';
import type { Manifest } from './manifest.js';
import type { Backup, Problem } from './stored-backup.js';

/** The paths of a new backup. */
export interface NewBackupPaths {
  /** Of this machine. The images of a remote are made here, too. */
  readonly directory: string;
  /** The name of the manifest's file once the backup is complete. */
  readonly name: string;
  readonly imageFile: string;
  /** The full paths of the unfinished files. */
  readonly imagePartial: string;
  readonly rangesPartial: string;
}

/** Excludes other writers of a volume's backups. */
export interface VolumeLock {
  /** Leftovers of an interrupted command that could not be finished or removed. */
  readonly problems: readonly Problem[];
  release(): void;
}

export interface Repository {
  /** Its name for people. */
  readonly location: string;

  /** Returns the backups of every volume that has any. Throws NOT_FOUND if the repository does not exist. */
  all(): Promise<VolumeBackups[]>;

  /** Returns all backups of a volume, which may be none. */
  backupsOf(volumeId: string): Promise<VolumeBackups>;

  /**
   * Excludes every other writer of the volume's backups, of a remote those with the same spool, until the lock is released or
   * this process ends. Finishes or removes the leftovers of an interrupted command. Throws ABORTED if another command holds the
   * lock.
   */
  lock(volumeId: string): Promise<VolumeLock>;

  /**
   * The caller holds the lock of the volume. Throws ALREADY_EXISTS if the snapshot has a backup in a directory. At a remote another
   * machine may add one at any time; then one of the two is superseded.
   */
  begin(volumeId: string, snapshot: { id: string; creationTime: Date }): Promise<NewBackupPaths>;

  /** Like begin, for another image of a snapshot that has a backup. */
  beginNext(backup: Backup): Promise<NewBackupPaths>;

  /** Throws RESOURCE_EXHAUSTED if a new image with that much data does not fit in a place that must hold it whole for a while. */
  assertRoom(bytes: bigint): Promise<void>;

  /** Adds the finished backups of the volume that an earlier command has made and could not add. The caller holds the lock. */
  addWaiting(volumeId: string, onNotice: (message: string) => void): Promise<void>;

  /** Adds the finished image and its manifest to the repository. Both are durable once this resolves. */
  commit(paths: NewBackupPaths, manifest: Manifest): Promise<Backup>;

  /** Removes a backup on which no other backup is based. */
  remove(backup: Backup): Promise<void>;

  /** Ends what was started to reach the repository. */
  close(): Promise<void>;
}
