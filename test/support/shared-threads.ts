/**
 * Threads of the addon for all test files of a process: on an emulated processor each takes a second to
 * start. Whoever runs the files closes them at the end (scripts/run-in-one-process.mjs).
 */
import { NativePool } from '../../src/driver/native/pool.js';

let shared: NativePool | undefined;

export function sharedThreads(): NativePool {
  shared ??= new NativePool(2);
  return shared;
}

export async function closeSharedThreads(): Promise<void> {
  await shared?.close();
  shared = undefined;
}
