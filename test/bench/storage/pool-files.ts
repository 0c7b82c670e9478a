/** The files of volumes and snapshots in a pool, however the pool arranges them. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

/** The file behind a published volume, raw or mounted, however the pool arranges its files. */
export function backingFileOf(path: string): string {
  const state = statSync(path);
  const rdev = state.isDirectory() ? state.dev : state.rdev;
  // makedev(3): the low byte of the minor number, the major number, the rest of the minor number.
  const [major, minor] = [(rdev >> 8) & 0xfff, (rdev & 0xff) | ((rdev >> 12) & 0xfff00)];
  return readFileSync(`/sys/dev/block/${major}:${minor}/loop/backing_file`, 'utf8').trimEnd();
}

/** The file of a snapshot in the pool: `snapshots/<id>`, or the one file in the subvolume of that name. */
export function snapshotFile(pool: string, snapshotId: string): string {
  let path = join(pool, 'snapshots', snapshotId);
  while (statSync(path).isDirectory()) {
    const [only] = readdirSync(path);
    if (only === undefined) throw new Error(`${path} holds no file of a snapshot`);
    path = join(path, only);
  }
  return path;
}
