/** The files of a reflink pool's snapshots, without those of deleted ones that only later lists need, and without replicas. */
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** @param directory the pool's directory `snapshots` */
export function snapshotFiles(directory: string): string[] {
  const bases = join(dirname(directory), 'bases');
  const marks = new Set(existsSync(bases) ? readdirSync(bases) : []);
  return readdirSync(directory).filter(
    (name) => !marks.has(`${name}.hidden`) && !/\.(replica|pull|promise-\w+)$/.test(name),
  );
}

/** What a reflink pool holds of a copy of a snapshot of another node, by the ends of its names: `.replica`, `.pull`, `.promise`. */
export const copyFiles = (poolPath: string, snapshotId: string): string[] =>
  readdirSync(join(poolPath, 'snapshots'))
    .filter((name) => name.startsWith(snapshotId))
    .map((name) => name.slice(snapshotId.length).replace(/-.*/, ''))
    .toSorted();

/** Of a copy that is complete and promised. */
export const KEPT_COPY: readonly string[] = ['.promise', '.replica'];
