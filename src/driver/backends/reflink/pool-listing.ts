/**
 * The entries in the directories of a reflink pool, told apart by name: for the backend, and for commands that look at a pool
 * while a plugin may be changing it. Changes nothing.
 */
import { join } from 'node:path';
import type { NativeRunner } from '../../native/pool.js';
import { type DirectoryFile, filesIn, namesIn } from '../directory-files.js';
import { marksIn } from './deleted-marks.js';
import type { OpenDirectories } from './open-directories.js';
import { isCopyName, isObjectName, isTemporaryName, type PoolLayout } from './pool-layout.js';

/** Inode number of the top of a subvolume on btrfs. */
const SUBVOLUME_TOP = 256n;

export interface PoolListing {
  volumes: DirectoryFile[];
  /** Without deleted snapshots whose files stay as the base of deltas. */
  snapshots: DirectoryFile[];
  /** Paths of files that an interrupted call has left. */
  temporary: string[];
  /** Paths of copies of the subvolume `volumes` that an interrupted call has left, on btrfs. */
  copies: string[];
  /** Paths of entries that are not from the plugin. */
  foreign: string[];
}

/** @param named the pool's directories by the paths that the listing gives */
export async function poolListing(
  native: NativeRunner,
  opened: OpenDirectories,
  named: PoolLayout,
): Promise<PoolListing> {
  const { layout } = opened;
  const listing: PoolListing = {
    volumes: [],
    snapshots: [],
    temporary: [],
    copies: [],
    foreign: [],
  };
  for (const part of ['volumes', 'snapshots'] as const) {
    for (const file of await filesIn(native, layout[part])) {
      const path = join(named[part], file.name);
      if (isTemporaryName(file.name)) listing.temporary.push(path);
      else if (isObjectName(file.name) && file.regular) listing[part].push(file);
      else listing.foreign.push(path);
    }
  }
  // The marks are read last: a snapshot that is being deleted is hidden before the catalogue removes its row.
  const marks = await marksIn(opened);
  listing.snapshots = listing.snapshots.filter(({ name }) => marks.get(name) !== 'hidden');
  for (const name of (await namesIn(native, layout.root)).filter(isCopyName)) {
    const { entry } = await native.run('entryOf', { path: join(layout.root, name) });
    if (entry === null) continue;
    const isSubvolume = entry.kind === 'directory' && entry.inode === SUBVOLUME_TOP;
    (isSubvolume ? listing.copies : listing.foreign).push(join(named.root, name));
  }
  return listing;
}
