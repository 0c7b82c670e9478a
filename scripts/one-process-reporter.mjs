/**
 * Reports the tests of scripts/run-in-one-process.mjs: a line for each as it ends, with its time, then
 * failures and the sum "N passed, N failed, N skipped".
 *
 * Ends the process, with what is known so far, if nothing ends for BLOCKDELTA_TEST_STALL_SECONDS
 * (default 900), or if something keeps the process alive after the last test.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { Tally } from './suite/tally.mjs';

export const LAST_TEST = 'the tests have left nothing behind on this machine';

const STALL_MS = 1000 * Number(process.env.BLOCKDELTA_TEST_STALL_SECONDS ?? 900);
const ENDING_MS = 20_000;

const tally = new Tally();
let running = 'the test files are being loaded';
let isOver = false;
let lastEvent = performance.now();

export default async function* report(events) {
  // Keeps the process, and so the time limits of the tests, alive until the last test.
  const watch = setInterval(giveUpIfStalled, 1000);
  for await (const { type, data } of events) {
    lastEvent = performance.now();
    if (type === 'test:dequeue') running = data.name;
    if (type === 'test:diagnostic' && data.nesting > 0) yield `#      ${data.message}\n`;
    if (type === 'test:pass') yield line(data, 'passed');
    if (type === 'test:fail') yield line(data, 'failed');
    if (data.name === LAST_TEST && (type === 'test:pass' || type === 'test:fail')) {
      isOver = true;
      watch.unref();
    }
  }
  clearInterval(watch);
  yield `${tally}\n`;
}

function line(event, result) {
  tally.count(event, result);
  if (event.skip !== undefined || !tally.isCounted(event, result)) return '';
  const took = `${(event.details.duration_ms / 1000).toFixed(1).padStart(6)} s  ${event.name}\n`;
  if (result === 'passed') return `ok     ${took}`;
  const { error } = event.details;
  return `FAILED ${took}${inspect(error.cause ?? error)}\n`;
}

function giveUpIfStalled() {
  const silent = performance.now() - lastEvent;
  if (silent < (isOver ? ENDING_MS : STALL_MS)) return;
  tally.failed += 1;
  const what = isOver
    ? `the process goes on after the last test, for the sake of ${process.getActiveResourcesInfo().join(', ')}`
    : `nothing has ended for ${(silent / 1000).toFixed(0)} s, given up in: ${running}`;
  console.log(`FAILED ${what}\n${waitingThreads()}${tally}`);
  process.exit(1);
}

/** Of the machine: what sits in the kernel and cannot be interrupted, and where. */
function waitingThreads() {
  const found = [];
  for (const pid of list('/proc').filter((name) => /^\d+$/.test(name))) {
    for (const task of list(`/proc/${pid}/task`)) {
      const place = `/proc/${pid}/task/${task}`;
      if (!/^State:\s+D/m.test(read(`${place}/status`))) continue;
      found.push(`waits in the kernel: ${read(`${place}/comm`).trim()} (${task})\n${read(`${place}/stack`)}`);
    }
  }
  return found.join('');
}

function list(directory) {
  try {
    return readdirSync(directory);
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
