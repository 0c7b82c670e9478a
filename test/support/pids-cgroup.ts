/** A cgroup that limits how many tasks its processes have. */
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/sys/fs/cgroup';

/** The path of a new one, with either version of cgroups; null: none can be made here. */
export function makePidsCgroup(name: string): string | null {
  try {
    const v1 = join(ROOT, 'pids');
    const parent = existsSync(v1) ? v1 : ROOT;
    const path = join(parent, name);
    if (parent === ROOT) writeFileSync(join(ROOT, 'cgroup.subtree_control'), '+pids');
    mkdirSync(path);
    if (existsSync(join(path, 'pids.max'))) return path;
    rmdirSync(path);
    return null;
  } catch {
    return null;
  }
}

/** The processes of the command begin in it, without a limit as yet. */
export function inCgroup(path: string, command: readonly string[]): string[] {
  return ['sh', '-c', `echo 0 > ${join(path, 'cgroup.procs')}; exec "$@"`, 'sh', ...command];
}
