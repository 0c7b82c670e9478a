/**
 * A cgroup for the processes of one job: it knows all of them, also daemons that left their session, and the
 * processor time of those that nobody waited for. One of version 2, or of the cpuacct controller of version 1. Where
 * neither can be made, there is none.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';

/** How each version shows itself in mountinfo and in /proc/self/cgroup, and where it counts. */
const VERSIONS = [
  {
    mounted: / - cgroup2 /,
    own: /^0::(\/.*)$/m,
    seconds: (path) => Number(/^usage_usec (\d+)$/m.exec(read(join(path, 'cpu.stat')))?.[1] ?? Number.NaN) / 1e6,
  },
  {
    mounted: / - cgroup \S+ \S*\bcpuacct\b/,
    own: /^\d+:[^:]*\bcpuacct\b[^:]*:(\/.*)$/m,
    seconds: (path) => Number.parseInt(read(join(path, 'cpuacct.usage')), 10) / 1e9,
  },
];

export class Cgroup {
  #seconds;

  constructor(path, seconds) {
    this.path = path;
    this.#seconds = seconds;
  }

  /**
   * Below the one of this process; undefined where that is not allowed or nothing counts there.
   * @param {string} name
   * @param {number[]} [versions]   of which it may be
   */
  static make(name, versions = [2, 1]) {
    for (const version of versions) {
      const { mounted, own, seconds } = VERSIONS[2 - version];
      const line = read('/proc/self/mountinfo').split('\n').find((each) => mounted.test(each));
      const ownPath = own.exec(read('/proc/self/cgroup'))?.[1];
      if (line === undefined || ownPath === undefined) continue;
      const path = join(line.split(' ')[4], ownPath, name);
      try {
        mkdirSync(path);
      } catch {
        continue;
      }
      const cgroup = new Cgroup(path, seconds);
      if (!Number.isNaN(seconds(path))) return cgroup;
      cgroup.remove();
    }
    return undefined;
  }

  /** A process that writes 0 to it is in the group. */
  get procs() {
    return join(this.path, 'cgroup.procs');
  }

  /** Of all processes that are or were in it. */
  get cpuSeconds() {
    return this.#seconds(this.path) || 0;
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
