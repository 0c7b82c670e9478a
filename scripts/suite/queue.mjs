/**
 * Runs jobs beside each other: at most as many at a time as there are slots, those that take longest
 * first, each as soon as the jobs it needs have passed. A job that hangs (hang.mjs) is ended, with what it was
 * at. Knows processes, and nothing of tests.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Cgroup } from './cgroup.mjs';
import { watchForHang } from './hang.mjs';
import { isolated, MountNamespace } from './mounts.mjs';
import { whatTheyWaitFor } from './waiting.mjs';

/**
 * @typedef {object} Job
 * @property {string} name
 * @property {string[]} command
 * @property {Record<string, string>} [env]   added to the environment
 * @property {Job[]} [needs]                  jobs that must have passed before
 * @property {number} [seconds]               roughly how long it takes: longer ones start earlier
 * @property {number} [cpuSeconds]            of processor time that it took when it was recorded
 * @property {boolean} [givesUp]              by itself: on a network that is silent, on what hangs in it
 */

/**
 * @typedef {object} Outcome
 * @property {Job} job
 * @property {number | null} status      exit status; null: killed, or not started
 * @property {string} output             of both streams, in order
 * @property {number} wallSeconds
 * @property {number} cpuSeconds         of all processes; without a cgroup, of those that were waited for
 * @property {string} [notRun]           why it was not started
 */

/**
 * @typedef {object} Place   where a job that was started has run
 * @property {string} directory
 * @property {string[]} enter   what a command begins with that sees the job's mounts
 * @property {Cgroup} [cgroup]
 */

// Bash writes the processor time of the command to the file that is its first argument, and enters the
// cgroup that is its second.
const TIMED =
  '[ "$1" = "" ] || echo 0 >"$1"; shift; TIMEFORMAT="%U %S"; { time "$@" 2>&4 4>&-; } 4>&2 2>"$0"';
const DRAIN_MS = 2000;
/** Of the longest job, which decides when the run ends: about three times the share of another. */
const NICE = -5;

export class JobQueue {
  #waiting;
  #longest;
  /** What runs, with what ends it. */
  #running = new Map();
  #places = new Map();
  #outcomes = new Map();
  #slots;
  #options;
  #stopped = false;
  #finish;

  /**
   * @param {Job[]} jobs
   * @param {object} options
   * @param {number} options.slots
   * @param {string} options.directory             for each job's directory and output
   * @param {boolean} [options.live]               shows the output as it comes
   * @param {number} [options.lookMs]              between two looks whether a job hangs
   * @param {boolean} [options.cgroups]            whether jobs get cgroups where that is possible
   * @param {(outcome: Outcome, place?: Place) => Promise<void> | void} options.ended
   *   called after each job, before its slot is given to another
   */
  constructor(jobs, options) {
    this.#waiting = [...jobs].sort((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0));
    const needed = new Set(jobs.flatMap((job) => job.needs ?? []));
    this.#longest = this.#waiting.find((job) => !needed.has(job));
    this.#slots = options.slots;
    this.#options = options;
  }

  /** Resolves when all jobs have ended or cannot run. */
  run() {
    return new Promise((resolve) => {
      this.#finish = resolve;
      this.#startWhatCan();
    });
  }

  /** Starts nothing more, kills what runs, and gives the directory, mounts and cgroup of each. */
  stop() {
    this.#stopped = true;
    for (const end of this.#running.values()) end();
    return [...this.#places.values()];
  }

  #startWhatCan() {
    this.#dropUnmet();
    for (const job of this.#stopped ? [] : [...this.#waiting]) {
      if (this.#canStart(job)) {
        this.#waiting.splice(this.#waiting.indexOf(job), 1);
        this.#start(job);
      }
    }
    if (this.#running.size === 0) this.#finish();
  }

  /** Reports the jobs that need one that failed, and those that need these in turn. */
  #dropUnmet() {
    let hasDropped = true;
    while (hasDropped) {
      hasDropped = false;
      for (const job of this.#stopped ? [] : [...this.#waiting]) {
        const failed = (job.needs ?? []).find((needed) => this.#outcomes.get(needed) === false);
        if (failed === undefined) continue;
        hasDropped = true;
        this.#waiting.splice(this.#waiting.indexOf(job), 1);
        this.#outcomes.set(job, false);
        const notRun = `'${failed.name}' failed`;
        void this.#options.ended({ job, status: null, output: '', wallSeconds: 0, cpuSeconds: 0, notRun });
      }
    }
  }

  #canStart(job) {
    if (!(job.needs ?? []).every((needed) => this.#outcomes.get(needed) === true)) return false;
    return this.#running.size < this.#slots;
  }

  #start(job) {
    const number = this.#outcomes.size + this.#running.size + 1;
    const directory = join(this.#options.directory, `${number}`);
    const places = { directory, times: `${directory}.times`, running: `${directory}.running` };
    mkdirSync(directory);
    const cgroup =
      this.#options.cgroups === false ? undefined : Cgroup.make(`blockdelta-suite-${process.pid}-${number}`);
    const output = [];
    const reasons = [];
    const begun = performance.now();
    const timed = ['bash', '-c', TIMED, places.times, cgroup?.procs ?? '', ...job.command];
    const [program, ...words] = isolated(timed);
    const child = spawn(program, words, {
      detached: true,
      env: {
        ...process.env,
        ...job.env,
        TMPDIR: directory,
        BLOCKDELTA_TEST_RUNNING: places.running,
        // scripts/test-native enters no namespace within this one, whose mounts are looked at afterwards.
        OWN_MOUNTS: '1',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    if (job === this.#longest) prefer(child.pid);
    const keep = (chunk) => {
      if (this.#options.live === true) process.stdout.write(chunk);
      output.push(Buffer.from(chunk));
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    const mounts = new MountNamespace(child);
    this.#places.set(job, { directory, mounts, cgroup });
    const closed = new Promise((resolve) => child.once('close', resolve));
    this.#running.set(job, () => killGroup(child));
    const processes = { leader: child.pid, directory, cgroup };
    const options = { ...job, lookMs: this.#options.lookMs };
    const stopWatching = watchForHang(processes, options, (reason) => {
      reasons.push(`${reason}\n${begunTests(places.running)}${whatTheyWaitFor(processes)}`);
      killGroup(child);
    });
    child.once('exit', async (status) => {
      const cpuSeconds = stopWatching();
      // A process that was left behind may hold the pipes.
      await Promise.race([closed, delay(DRAIN_MS)]);
      for (const stream of [child.stdout, child.stderr]) stream.destroy();
      for (const reason of reasons) keep(reason);
      const outcome = {
        job,
        status,
        output: Buffer.concat(output).toString(),
        wallSeconds: (performance.now() - begun) / 1000,
        cpuSeconds: Math.max(cpuSeconds, waitedSeconds(places.times)),
      };
      for (const path of [places.times, places.running]) rmSync(path, { force: true });
      await mounts.ready;
      await this.#options.ended(outcome, { directory, enter: mounts.enter, cgroup });
      mounts.close();
      this.#places.delete(job);
      cgroup?.remove();
      this.#running.delete(job);
      this.#outcomes.set(job, status === 0);
      this.#startWhatCan();
    });
  }
}

/** Of a test file (reporter.mjs); empty for what is none, or has not begun one. */
function begunTests(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

/** Gives a process, the leader of its session, more processor time where that is allowed. */
function prefer(pid) {
  try {
    setPriority(pid, NICE);
    // Where the kernel groups processes by session, it shares between these groups by another number.
    writeFileSync(`/proc/${pid}/autogroup`, `${NICE}`);
  } catch {
    // Without the right to it, or without such groups, the job takes its turn.
  }
}

function killGroup(child) {
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function waitedSeconds(path) {
  try {
    const words = readFileSync(path, 'utf8').trim().split('\n').at(-1).split(' ');
    return words.reduce((sum, word) => sum + Number(word), 0);
  } catch {
    return 0;
  }
}
