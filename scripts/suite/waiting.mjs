/** Says what processes of a job that hangs are, and what they wait for. */
import { readdirSync, readFileSync } from 'node:fs';
import { processesNaming } from '../left-behind.mjs';

/** Frames of a kernel stack that say enough. */
const FRAMES = 4;

/**
 * Of the process group, of those that name the job's directory, and of others that are known: a line for
 * each process, and for each thread that cannot be interrupted, with the place in the kernel.
 */
export function whatTheyWaitFor(group, directory, others) {
  const inGroup = numbers('/proc').filter((pid) => statusOf(`/proc/${pid}`)?.group === group);
  const found = new Set([...inGroup, ...processesNaming(directory), ...others].map(Number));
  // Its leader only waits for the command.
  found.delete(group);
  return [...found].sort((a, b) => a - b).map(describe).join('');
}

function describe(pid) {
  const status = statusOf(`/proc/${pid}`);
  if (status === undefined) return '';
  const words = read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim() || `[${status.name}]`;
  const stuck = numbers(`/proc/${pid}/task`)
    .filter((thread) => thread !== `${pid}`)
    .map((thread) => `/proc/${pid}/task/${thread}`)
    .filter((place) => statusOf(place)?.state === 'D')
    .map((place) => `    a thread in state D${waitOf(place)}`);
  return `  process ${pid}, child of ${status.parent}, state ${status.state}${waitOf(`/proc/${pid}`)}    ${words}\n${stuck.join('')}`;
}

/** Where in the kernel, as far as that may be read. */
function waitOf(place) {
  const symbol = read(`${place}/wchan`).trim();
  const stack = read(`${place}/stack`).trim().split('\n').slice(0, FRAMES);
  const frames = stack.map((line) => line.replace(/^\[<\d+>\] /, '').replace(/\+.*/, ''));
  const where = frames.join('') !== '' ? frames.join(' < ') : symbol;
  return where === '' || where === '0' ? '\n' : `, waits in ${where}\n`;
}

function statusOf(place) {
  const stat = read(`${place}/stat`);
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields.length < 3) return undefined;
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
  return { name, state: fields[0], parent: Number(fields[1]), group: Number(fields[2]) };
}

function numbers(directory) {
  try {
    return readdirSync(directory).filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
