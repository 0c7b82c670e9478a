/**
 * A cgroup (v2) for the processes of one job: it knows all of them, also daemons that left their session,
 * and the processor time of those that nobody waited for. Where none can be made, there is none.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';

export class Cgroup {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
  }

  /** Below the one of this process; undefined where that is not allowed or there is no cgroup v2. */
  static make(name) {
    const mounted = / - cgroup2 /;
    const line = read('/proc/self/mountinfo').split('\n').find((each) => mounted.test(each));
    const own = /^0::(\/.*)$/m.exec(read('/proc/self/cgroup'))?.[1];
    if (line === undefined || own === undefined) return undefined;
    const path = join(line.split(' ')[4], own, name);
    try {
      mkdirSync(path);
      return new Cgroup(path);
    } catch {
      return undefined;
    }
  }

  /** A process that writes 0 to it is in the group. */
  get procs() {
    return join(this.path, 'cgroup.procs');
  }

  /** Of all processes that are or were in it. */
  get cpuSeconds() {
    return Number(/^usage_usec (\d+)$/m.exec(read(join(this.path, 'cpu.stat')))?.[1] ?? 0) / 1e6;
  }

  processes() {
    return below(this.path).flatMap((path) => read(join(path, 'cgroup.procs')).split('\n').filter(Boolean));
  }

  /** It stays if a process is still in it. */
  remove() {
    try {
      for (const path of below(this.path).reverse()) rmdirSync(path);
    } catch {
      // Whoever looks for what is left behind names the process.
    }
  }
}

/** The directory and those below it, parents first. */
function below(path) {
  const inside = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return [path, ...inside.flatMap(({ name }) => below(join(path, name)))];
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
