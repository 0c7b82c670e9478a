/** thin_delta of Debian's thin-provisioning-tools, run as a process. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { VisitRange } from '../../src/bench/streams/wire-reader.js';
import { BASE_DEVICE, BLOCK_BYTES, TARGET_DEVICE } from './thin-cases.js';

const PROGRAM = 'thin_delta';
const DEVICES = ['--thin1', String(BASE_DEVICE), '--thin2', String(TARGET_DEVICE)];

/** Its version. Throws with the way to install it where it is missing. */
export function thinDeltaVersion(): string {
  const { stdout, error } = spawnSync(PROGRAM, ['--version'], { encoding: 'utf8' });
  if (error === undefined) return stdout.trim();
  throw new Error(
    `${PROGRAM} cannot be run (${error.message}): install thin-provisioning-tools 0.9, ` +
      'as Debian 12 has it, to measure against',
  );
}

/** Wall time of the whole process with its output discarded, ms. */
export function timeThinDelta(metadata: string): Promise<number> {
  return timeProcess(PROGRAM, [...DEVICES, metadata]);
}

export async function timeProcess(program: string, args: readonly string[]): Promise<number> {
  const started = performance.now();
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = (await once(child, 'exit')) as [number | null];
  const ms = performance.now() - started;
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${code}`);
  return ms;
}

/** Visits what it finds changed, as ranges of bytes, neighbours joined. */
export async function readThinDelta(metadata: string, visit: VisitRange): Promise<void> {
  const child = spawn(PROGRAM, [...DEVICES, metadata], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit') as Promise<[number | null]>;
  let begin = 0;
  let end = 0;
  for await (const line of createInterface(child.stdout)) {
    const found = /<(?:left_only|right_only|different) begin="(\d+)" length="(\d+)"/.exec(line);
    if (found === null) continue;
    const [first, count] = [Number(found[1]), Number(found[2])];
    if (first !== end) {
      if (end > begin) visit(begin * BLOCK_BYTES, (end - begin) * BLOCK_BYTES);
      begin = first;
    }
    end = first + count;
  }
  if (end > begin) visit(begin * BLOCK_BYTES, (end - begin) * BLOCK_BYTES);
  const [code] = await ended;
  if (code !== 0) throw new Error(`${PROGRAM} on ${metadata} ended with ${code}`);
}
