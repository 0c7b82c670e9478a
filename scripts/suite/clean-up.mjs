/** What a job or a run has left behind: named, and removed. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { killAll, leftUnder, processesNaming, processInWords, removeUnder } from '../left-behind.mjs';

const SCRIPT = fileURLToPath(new URL('../left-behind.mjs', import.meta.url));
/** Mounts and loop devices; quicker than to start Node.js after each job. */
const SEARCH = 'grep -sqF "$0/" /proc/self/mountinfo /sys/block/loop*/loop/backing_file';
/** A clean-up that takes longer waits itself for what cannot be interrupted. */
const REMOVAL_MS = 60_000;

/**
 * Removes the directory of a job, and returns in words what lay below it or named it and was not gone after
 * that time.
 * @param {object} job
 * @param {string} job.directory
 * @param {string[]} job.enter   what a command begins with that runs where the job's mounts are
 * @param {import('./cgroup.mjs').Cgroup} [job.cgroup]
 */
export async function leftBy({ directory, enter, cgroup }, endingMs) {
  const deadline = Date.now() + endingMs;
  while (hasLeft(directory, enter) || membersOf(cgroup).length > 0) {
    if (Date.now() < deadline) {
      await delay(100);
      continue;
    }
    const { stdout } = run([...enter, process.execPath, SCRIPT, '--list', directory]);
    const named = stdout.split('\n').filter((line) => line !== '');
    const members = membersOf(cgroup);
    killAll(members);
    await remove(directory, enter);
    return [...new Set([...named, ...members.map(processInWords)])];
  }
  return removeUnder(directory);
}

/**
 * Removes the directory of a run whose jobs have ended, and returns in words what stems from it and was not gone after
 * that time: of processes that outlived their job, of devices on files that are deleted, of mounts in namespaces that
 * jobs have made.
 */
export async function leftByRun(directory, endingMs) {
  const deadline = Date.now() + endingMs;
  while (leftUnder(directory).length > 0 && Date.now() < deadline) await delay(100);
  const left = leftUnder(directory);
  if (left.length === 0) return removeUnder(directory);
  await remove(directory, []);
  return [...left, ...leftUnder(directory).map((each) => `${each}, which could not be removed`)];
}

/** The same for a job at once, and without a word. */
export function removeNow(directory, enter) {
  run([...enter, process.execPath, SCRIPT, directory]);
}

async function remove(directory, enter) {
  const [program, ...words] = [...enter, process.execPath, SCRIPT, directory];
  const removal = spawn(program, words, { stdio: 'inherit' });
  await Promise.race([once(removal, 'exit'), delay(REMOVAL_MS, undefined, { ref: false })]);
}

/** Of the cgroup, which knows also processes that name nothing. */
function membersOf(cgroup) {
  return cgroup?.processes() ?? [];
}

function hasLeft(directory, enter) {
  return (
    processesNaming(directory).length > 0 ||
    run([...enter, 'bash', '-c', SEARCH, directory]).status === 0
  );
}

function run([program, ...words]) {
  return spawnSync(program, words, { encoding: 'utf8', timeout: REMOVAL_MS });
}
