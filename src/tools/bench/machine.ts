/** Describes the machine of a run, as far as figures depend on it. */
import { readFileSync, realpathSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { mountContaining, readMountInfo } from '../../base/system/mountinfo.js';
import { packageVersion } from '../../base/version.js';

export interface Machine {
  date: string;
  kernel: string;
  /** The CPUs that this process may use. */
  cpus: number;
  cpuModel: string;
  memoryMiB: number;
  node: string;
  blockdelta: string;
  /** The temporary directory, which holds the pools, and its file system. */
  temporaryDirectory: string;
  /** The load over 1, 5 and 15 minutes, when the run began and after it had ended. */
  loadBefore: string;
  loadAfter: string;
}

const MIB = 1 << 20;

/** Call this before the first measurement. `afterRun` fills in `loadAfter`. */
export async function describeMachine(temporaryDirectory: string): Promise<Machine> {
  return {
    date: new Date().toISOString(),
    kernel: release(),
    cpus: availableParallelism(),
    cpuModel: cpus()[0]?.model.trim() ?? 'unknown',
    memoryMiB: Math.round(totalmem() / MIB),
    node: process.version,
    blockdelta: packageVersion(),
    temporaryDirectory: `${temporaryDirectory} (${await fileSystemOf(temporaryDirectory)})`,
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
async function fileSystemOf(directory: string): Promise<string> {
  const entry = mountContaining(await readMountInfo(), realpathSync(directory));
  return entry === null ? 'unknown' : `${entry.fsType} on ${entry.source}`;
}
