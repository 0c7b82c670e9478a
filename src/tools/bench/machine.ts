/** The machine a run was made on, as far as figures depend on it. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { packageVersion } from '../../base/version.js';

export interface Machine {
  date: string;
  kernel: string;
  /** Those this process may use. */
  cpus: number;
  cpuModel: string;
  memoryMiB: number;
  node: string;
  blockdelta: string;
  /** What the file systems of the pools and of the temporary directory are. */
  temporaryDirectory: string;
  /** 1, 5 and 15 minutes: how busy the machine was when the run began and when it had ended. */
  loadBefore: string;
  loadAfter: string;
}

const MIB = 1 << 20;

/** Before the first measurement; `loadAfter` is filled in by `afterRun`. */
export function describeMachine(temporaryDirectory: string): Machine {
  return {
    date: new Date().toISOString(),
    kernel: release(),
    cpus: availableParallelism(),
    cpuModel: cpus()[0]?.model.trim() ?? 'unknown',
    memoryMiB: Math.round(totalmem() / MIB),
    node: process.version,
    blockdelta: packageVersion(),
    temporaryDirectory: `${temporaryDirectory} (${fileSystemOf(temporaryDirectory)})`,
    loadBefore: load(),
    loadAfter: '',
  };
}

export function afterRun(machine: Machine): Machine {
  return { ...machine, loadAfter: load() };
}

function load(): string {
  return readFileSync('/proc/loadavg', 'utf8').split(' ').slice(0, 3).join(' ');
}

/** Type and source of the mount that a directory is on: 'ext4 on /dev/vda1'. */
function fileSystemOf(directory: string): string {
  let best = { mountPoint: '', description: 'unknown' };
  for (const line of readFileSync('/proc/self/mounts', 'utf8').split('\n')) {
    const [source = '', mountPoint = '', type = ''] = line.split(' ');
    const within = mountPoint === '/' || `${directory}/`.startsWith(`${mountPoint}/`);
    // A later line with the same mount point covers the earlier one.
    if (!within || mountPoint.length < best.mountPoint.length) continue;
    best = { mountPoint, description: `${type} on ${source}` };
  }
  return best.description;
}
