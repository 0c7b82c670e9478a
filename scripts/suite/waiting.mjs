/** Says what processes of a job that hangs are, what they wait for, and whether that is a lock of others. */
import { numbers, processesOf, read, statusOf } from './processor-time.mjs';

/** Frames of a kernel stack that say enough. */
const FRAMES = 4;

/**
 * Of the processes of a job: a line for each, and for each thread that cannot be interrupted, with the place in the
 * kernel.
 */
export function whatTheyWaitFor(job) {
  // Its leader only waits for the command.
  const found = processesOf(job).filter(({ pid }) => pid !== job.leader);
  return found.sort((a, b) => a.pid - b.pid).map(describe).join('');
}

function describe({ pid, name, parent, state }) {
  const words = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim() || `[${name}]`;
  const stuck = numbers(`/proc/${pid}/task`)
    .filter((thread) => thread !== `${pid}`)
    .map((thread) => `/proc/${pid}/task/${thread}`)
    .filter((place) => statusOf(place)?.state === 'D')
    .map((place) => `    a thread in state D${waitOf(place)}`);
  return `  process ${pid}, child of ${parent}, state ${state}${waitOf(`/proc/${pid}`)}    ${words}\n${stuck.join('')}`;
}

/** Where in the kernel, as far as that may be read. */
function waitOf(place) {
  const symbol = read(`${place}/wchan`).trim();
  const stack = read(`${place}/stack`).trim().split('\n').slice(0, FRAMES);
  const frames = stack.map((line) => line.replace(/^\[<\d+>\] /, '').replace(/\+.*/, ''));
  const where = frames.join('') !== '' ? frames.join(' < ') : symbol;
  return where === '' || where === '0' ? '\n' : `, waits in ${where}\n`;
}

/**
 * Whether a process of the job waits for a lock on a file that a process of another job or another run holds, such as
 * the one that builds in the same checkout or installs packages: then that one may hang, not this.
 */
export function waitForLockOfOthers(job) {
  const waits = read('/proc/locks').matchAll(/^\d+: -> \S+ +\S+ +\S+ +(\d+) (\S+) /gm);
  const waiting = [...waits].map(([, pid, file]) => ({ pid: Number(pid), file }));
  if (waiting.length === 0) return false;
  const own = new Set(processesOf(job).map(({ pid }) => pid));
  const files = new Set(waiting.filter(({ pid }) => own.has(pid)).map(({ file }) => file));
  return files.size > 0 && numbers('/proc').some((pid) => !own.has(Number(pid)) && holdsLock(pid, files));
}

/** By its open files: /proc/locks names the process that took the lock, which may have handed its file on and ended. */
function holdsLock(pid, files) {
  return numbers(`/proc/${pid}/fdinfo`).some((number) => {
    const lock = /^lock:\s+\d+: \S+ +\S+ +\S+ +-?\d+ (\S+) /m.exec(read(`/proc/${pid}/fdinfo/${number}`));
    return lock !== null && files.has(lock[1]);
  });
}
