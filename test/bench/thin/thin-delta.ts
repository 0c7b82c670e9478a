/** thin_delta of Debian's thin-provisioning-tools, run as a process. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { VisitRange } from '../../../src/base/csi/range-reader.js';
import { findProgram, isMissing } from '../programs.js';
import { BASE_DEVICE, BLOCK_BYTES, TARGET_DEVICE } from './metadata.js';

const DEVICES = ['--thin1', String(BASE_DEVICE), '--thin2', String(TARGET_DEVICE)];

/** Null, or what to install. */
export function thinDeltaProblem(): string | null {
  const found = findProgram('thin_delta');
  return isMissing(found) ? found.missing : null;
}

function program(): string {
  const found = findProgram('thin_delta');
  if (isMissing(found)) throw new Error(found.missing);
  return found.program;
}

/** Wall time of the whole process with its output discarded, ms. */
export function timeThinDelta(metadata: string): Promise<number> {
  return timeProcess(program(), [...DEVICES, metadata]);
}

export async function timeProcess(file: string, args: readonly string[]): Promise<number> {
  const started = performance.now();
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  const [code] = (await once(child, 'exit')) as [number | null];
  const ms = performance.now() - started;
  if (code !== 0) throw new Error(`${file} ${args.join(' ')} ended with ${code}`);
  return ms;
}

/** Visits what it finds changed, as ranges of bytes, neighbours joined. */
export async function readThinDelta(metadata: string, visit: VisitRange): Promise<void> {
  const child = spawn(program(), [...DEVICES, metadata], { stdio: ['ignore', 'pipe', 'inherit'] });
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
  if (code !== 0) throw new Error(`thin_delta on ${metadata} ended with ${code}`);
}
