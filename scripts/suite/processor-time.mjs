/**
 * The processes of a job, and the processor time that they have had: by its cgroup, or else by /proc. Knows nothing
 * of what the job does.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { namesDirectory } from '../left-behind.mjs';

/** The unit of /proc/PID/stat, the same on all machines that Node.js runs on. */
const TICKS_PER_SECOND = 100;

/**
 * @typedef {object} Processes
 * @property {number} leader      of their process group and session
 * @property {string} directory   that they have in their variables
 * @property {import('./cgroup.mjs').Cgroup} [cgroup]
 */

export class ProcessorTime {
  #job;
  /** Of the processes that there were at the last look, and of all looks. */
  #last = 0;
  #sum = 0;

  /** @param {Processes} job */
  constructor(job) {
    this.#job = job;
  }

  /** In seconds, never less than before. */
  look() {
    if (this.#job.cgroup !== undefined) return this.#job.cgroup.cpuSeconds;
    // A process that has ended is counted on in the time of the children that its parent waited for. If nobody of the
    // job has waited for it, its time goes from the sum: what the others had since the last look is not seen then.
    const times = processesOf(this.#job).map(({ ticks }) => ticks);
    const now = times.reduce((sum, ticks) => sum + ticks, 0) / TICKS_PER_SECOND;
    this.#sum += Math.max(0, now - this.#last);
    this.#last = now;
    return this.#sum;
  }
}

/**
 * Of its cgroup, its process group and its session; those that name its directory; and all that these have started,
 * such as an emulator. Each with its clock ticks, and those of the children that it has waited for.
 */
export function processesOf({ leader, directory, cgroup }) {
  const all = numbers('/proc').flatMap((pid) => statusOf(`/proc/${pid}`) ?? []);
  const inGroup = new Set((cgroup?.processes() ?? []).map(Number));
  const found = new Set(
    all.filter(
      ({ pid, group, session }) =>
        inGroup.has(pid) || group === leader || session === leader || namesDirectory(pid, directory),
    ),
  );
  // Grows meanwhile.
  for (const parent of found) {
    for (const process of all) if (process.parent === parent.pid) found.add(process);
  }
  return [...found].filter(({ pid }) => pid !== process.pid);
}

/** Of a process or a thread, whose directory that is. */
export function statusOf(place) {
  const stat = read(`${place}/stat`);
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields.length < 15) return undefined;
  const [parent, group, session] = fields.slice(1, 4).map(Number);
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  return { pid: Number.parseInt(stat, 10), name, state: fields[0], parent, group, session, ticks };
}

/** Entries of a directory that are numbers, such as those of processes. */
export function numbers(directory) {
  try {
    return readdirSync(directory).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

export function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
