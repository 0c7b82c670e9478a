/** What another process has used so far, by /proc and the CPU clock of the process. */

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { run } from '../../src/tools/bench/run.js';
import { compilePeer } from './peers.js';
import { isMissing } from './programs.js';

const KIB_PER_MIB = 1024;
/** proc_pid_clear_refs(5): sets VmHWM back to VmRSS. */
const RESET_PEAK = '5\n';

export class ProcessMeter {
  constructor(readonly pid: number) {}

  /**
   * CPU time of all its threads, user and system, in ms. By the clock of the process where a C++ compiler is
   * installed; otherwise the sum over the threads there are now, without those that have ended.
   */
  async cpuMs(): Promise<number> {
    const clock = await compilePeer('process_clock');
    if (isMissing(clock)) return this.#threadsCpuMs();
    const { stdout } = await run(clock.program, [String(this.pid)], { check: true });
    return Number(stdout) / 1e6;
  }

  rssMiB(): number {
    return this.#statusMiB('VmRSS');
  }

  /** The highest RSS since the start, or since resetPeak(). */
  peakMiB(): number {
    return this.#statusMiB('VmHWM');
  }

  resetPeak(): void {
    writeFileSync(`/proc/${this.pid}/clear_refs`, RESET_PEAK);
  }

  #threadsCpuMs(): number {
    let nanoseconds = 0;
    for (const thread of readdirSync(`/proc/${this.pid}/task`)) {
      const stat = readFileSync(`/proc/${this.pid}/task/${thread}/schedstat`, 'utf8');
      nanoseconds += Number(stat.split(' ')[0]);
    }
    return nanoseconds / 1e6;
  }

  #statusMiB(field: string): number {
    const status = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    const kib = new RegExp(`^${field}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1];
    if (kib === undefined) throw new Error(`/proc/${this.pid}/status has no ${field}`);
    return Number(kib) / KIB_PER_MIB;
  }
}
