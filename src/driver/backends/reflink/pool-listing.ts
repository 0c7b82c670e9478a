/**
 * The entries in the directories of a reflink pool, told apart by name: for the backend, and for commands that look at a pool
 * while a plugin may be changing it. Changes nothing.
 */
import { join } from 'node:path';
import type { NativeRunner } from '../../native/pool.js';
import { type DirectoryEntry, type DirectoryFile, filesIn, namesIn } from '../directory-files.js';
import { marksIn } from './deleted-marks.js';
import type { OpenDirectories } from './open-directories.js';
import {
  isCopyName,
  isObjectName,
  isReplicaName,
  isTemporaryName,
  isUnfinishedName,
  type PoolLayout,
  promiseIn,
} from './pool-layout.js';

/** Inode number of the top of a subvolume on btrfs. */
const SUBVOLUME_TOP = 256n;

export interface PoolListing<S extends DirectoryEntry> {
  volumes: DirectoryFile[];
  /** Without deleted snapshots whose files stay as the base of deltas. */
  snapshots: S[];
  /** Paths of files that an interrupted call has left. */
  temporary: string[];
  /** Paths of copies of the subvolume `volumes` that an interrupted call has left, on btrfs. */
  copies: string[];
  /** Paths of entries that are not from the plugin. */
  foreign: string[];
}

interface Look {
  native: NativeRunner;
  opened: OpenDirectories;
  /** The pool's directories by the paths that the listing gives. */
  named: PoolLayout;
}

/** @param snapshotsIn filesIn, or entriesIn if the sizes of the snapshots are not needed */
export async function poolListing<S extends DirectoryEntry>(
  { native, opened, named }: Look,
  snapshotsIn: (native: NativeRunner, path: string) => Promise<S[]>,
): Promise<PoolListing<S>> {
  const { layout } = opened;
  const listing: PoolListing<S> = {
    volumes: [],
    snapshots: [],
    temporary: [],
    copies: [],
    foreign: [],
  };
  const objectsOf = <E extends DirectoryEntry>(directory: string, entries: readonly E[]): E[] =>
    entries.filter(({ name, regular }) => {
      const isObject = isObjectName(name) && regular;
      if (!isObject) listing[isTemporaryName(name) ? 'temporary' : 'foreign'].push(join(directory, name));
      return isObject;
    });
  listing.volumes = objectsOf(named.volumes, await filesIn(native, layout.volumes));
  const entries = await snapshotsIn(native, layout.snapshots);
  const snapshots = objectsOf(
    named.snapshots,
    entries.filter(({ name }) => !isReplicaName(name) && !isUnfinishedName(name) && promiseIn(name) === null),
  );
  // The marks are read last: a snapshot that is being deleted is hidden before the catalogue removes its row.
  const marks = await marksIn(opened);
  listing.snapshots = snapshots.filter(({ name }) => marks.get(name) !== 'hidden');
  for (const name of (await namesIn(native, layout.root)).filter(isCopyName)) {
    const { entry } = await native.run('entryOf', { path: join(layout.root, name) });
    if (entry === null) continue;
    const isSubvolume = entry.kind === 'directory' && entry.inode === SUBVOLUME_TOP;
    (isSubvolume ? listing.copies : listing.foreign).push(join(named.root, name));
  }
  return listing;
}
