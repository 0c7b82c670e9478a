/** The machine a run was made on, as far as figures depend on it. */
import { readFileSync, realpathSync } from 'node:fs';
import { availableParallelism, cpus, release, totalmem } from 'node:os';
import { mountContaining, readMountInfo } from '../../base/system/mountinfo.js';
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
