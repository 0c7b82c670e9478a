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
