/**
 * Reporter for the process of one test file: a line for each test as it ends, failures with their
 * cause, and at the end the line "N passed, N failed, N skipped". The file BLOCKDELTA_TEST_RUNNING has the
 * tests that have begun, for whoever ends the process.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { isFilteredOut, Tally } from './tally.mjs';

/** A process whose last test has ended closes what it has open meanwhile, on a slow machine too. */
const ENDING_MS = 60_000;
const FIGURES = /^(tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) /;

export default async function* report(events) {
  const tally = new Tally();
  /** Tests that have started and neither ended nor been named in the output, outermost first. */
  let unnamed = [];
  for await (const { type, data } of events) {
    noteBegun(type, data);
    if (type === 'test:start') unnamed.push(data);
    if (type === 'test:diagnostic' && !(data.nesting === 0 && FIGURES.test(data.message))) {
      yield `${'  '.repeat(data.nesting)}# ${data.message}\n`;
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    const result = type === 'test:pass' ? 'passed' : 'failed';
    const isOwn = ({ name, nesting }) => name === data.name && nesting === data.nesting;
    const parents = unnamed.filter(({ nesting }) => nesting < data.nesting);
    unnamed = unnamed.filter((started) => !isOwn(started));
    if (isFilteredOut(data)) continue;
    unnamed = unnamed.filter((started) => !parents.includes(started));
    for (const { name, nesting } of parents) yield `${'  '.repeat(nesting)}▶ ${name}\n`;
    tally.count(data, result);
    yield line(data, result, tally);
  }
  yield `${tally}\n`;
  setTimeout(endForced, ENDING_MS).unref();
}

/** Tests that are known and have not ended. */
let unfinished = [];

function noteBegun(type, { name, nesting }) {
  const path = process.env.BLOCKDELTA_TEST_RUNNING;
  if (path === undefined || !/^test:(enqueue|dequeue|pass|fail)$/.test(type)) return;
  const isOther = (test) => test.name !== name || test.nesting !== nesting;
  if (type === 'test:enqueue') unfinished.push({ name, nesting, hasBegun: false });
  else if (type !== 'test:dequeue') unfinished = unfinished.filter(isOther);
  else for (const test of unfinished) test.hasBegun ||= !isOther(test);
  const begun = unfinished.filter(({ hasBegun }) => hasBegun).map((test) => `  has begun: ${test.name}\n`);
  // Events of a test that blocks the process do not come here: it is the one after those.
  const next = unfinished.find(({ hasBegun }) => !hasBegun);
  writeFileSync(`${path}.new`, `${begun.join('')}${next === undefined ? '' : `  the next is: ${next.name}\n`}`);
  renameSync(`${path}.new`, path);
}

/** Something keeps the process alive, such as a plugin that a failed test has not ended. */
function endForced() {
  const reasons = process.getActiveResourcesInfo().join(', ');
  console.log(`FAILED: the process goes on after the last test because of ${reasons}`);
  process.exit(1);
}

function line(event, result, tally) {
  const indent = '  '.repeat(event.nesting);
  const took = `(${event.details.duration_ms.toFixed(1)}ms)`;
  if (event.skip !== undefined) return `${indent}﹣ ${event.name} ${took} # ${event.skip}\n`;
  if (result === 'passed') return `${indent}✔ ${event.name} ${took}\n`;
  const { error } = event.details;
  const cause = tally.isCounted(event, result) ? `${inspect(error?.cause ?? error)}\n` : '';
  return `${indent}✖ ${event.name} ${took}\n${cause.replace(/^(?=.)/gm, `${indent}  `)}`;
}
