/**
 * The code of a pool thread: loads the addon once and calls one function per task.
 *
 * Knows nothing of what the functions do. A scan buffer arrives and leaves by transfer, so threads
 * copy no bytes. JavaScript allocates the buffer: memory of native code would be cloned, or
 * refused.
 */

import type { NativeResult } from '../../base/system/native-result.js';
import type { FillRequest, FillResult } from './addon.js';
import { type Calls, loadCalls } from './file-calls.js';

const calls = loadCalls();

export interface UnaryTask {
  method: Exclude<keyof Calls, 'fillMetadata'>;
  request: unknown;
}
export interface FillTask {
  method: 'fillMetadata';
  request: FillRequest;
  buffer: ArrayBuffer;
}
/** Warms up a thread: answered once the addon is loaded. */
export interface IdleTask {
  method: null;
}
export interface FillAnswer {
  result: NativeResult<FillResult>;
  buffer: ArrayBuffer;
}

export default function perform(task: UnaryTask | FillTask | IdleTask): unknown {
  if (task.method === null) return null;
  if (task.method === 'fillMetadata') return fill(task);
  const call = calls[task.method] as (request: unknown) => unknown;
  return call(task.request);
}

/** Loaded at the first scan: most threads never scan, and the load takes a third of the time in which a thread starts. */
const loadPiscina = () => import('piscina');
let loading: ReturnType<typeof loadPiscina> | undefined;

async function fill({ request, buffer }: FillTask): Promise<unknown> {
  loading ??= loadPiscina();
  const piscina = await loading;
  const answer: FillAnswer = { result: calls.fillMetadata(request, buffer), buffer };
  return piscina.move({
    get [piscina.transferableSymbol]() {
      return answer.buffer;
    },
    get [piscina.valueSymbol]() {
      return answer;
    },
  });
}
