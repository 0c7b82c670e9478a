/** What a job has left behind: named, and removed. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { processesNaming, removeUnder } from '../left-behind.mjs';

const SCRIPT = fileURLToPath(new URL('../left-behind.mjs', import.meta.url));
/** Mounts and loop devices; quicker than to start Node.js after each job. */
const SEARCH = 'grep -sqF "$0/" /proc/self/mountinfo /sys/block/loop*/loop/backing_file';
/** A clean-up that takes longer waits itself for what cannot be interrupted. */
const REMOVAL_MS = 60_000;

/**
 * Removes the directory of a job, and returns in words what lay below it or named it and was not gone after
 * that time.
 * @param {string[]} enter   what a command begins with that runs where the job's mounts are
 */
export async function leftBy(directory, enter, endingMs) {
  const deadline = Date.now() + endingMs;
  while (hasLeft(directory, enter)) {
    if (Date.now() < deadline) {
      await delay(100);
      continue;
    }
    const { stdout } = run([...enter, process.execPath, SCRIPT, '--list', directory]);
    const [program, ...words] = [...enter, process.execPath, SCRIPT, directory];
    const removal = spawn(program, words, { stdio: 'inherit' });
    await Promise.race([once(removal, 'exit'), delay(REMOVAL_MS, undefined, { ref: false })]);
    return stdout.trim().split('\n');
  }
  return removeUnder(directory);
}

/** The same at once, and without a word. */
export function removeNow(directory, enter) {
  run([...enter, process.execPath, SCRIPT, directory]);
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
