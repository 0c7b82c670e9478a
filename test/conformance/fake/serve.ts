/**
 * Runs the conformance suite's own driver, for people who want to try the suite or the benchmark on another driver than blockdelta:
 * `scripts/fake-driver DIRECTORY`. Needs root, for loop devices. As a process of its own it copies the members of a group while the suite writes,
 * so that `groups.write-order` fails; in the tests both are one process.
 */
import { once } from 'node:events';
import { resolve } from 'node:path';
import { FakeDriver } from './driver.js';

const [given] = process.argv.slice(2);
if (given === undefined || given.startsWith('-')) {
  console.error('usage: scripts/fake-driver DIRECTORY');
  process.exit(2);
}
const driver = await FakeDriver.start(resolve(given));
console.log(`serving unix://${driver.socketPath}; SIGINT or SIGTERM ends it and removes its devices and mounts`);
// Keeps the process: the server alone would, until it is stopped.
await Promise.race(['SIGINT', 'SIGTERM'].map((signal) => once(process, signal)));
driver.stop();
