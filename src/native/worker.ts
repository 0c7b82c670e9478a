/**
 * The code of a pool thread: loads the addon once and calls one function per task.
 *
 * Knows nothing of what the functions do. A scan buffer arrives and leaves by transfer, so threads
 * copy no bytes. JavaScript allocates the buffer: memory of native code would be cloned, or
 * refused.
 */
import { move, transferableSymbol, valueSymbol } from 'piscina';
import {
  type Addon,
  type FillRequest,
  type FillResult,
  loadAddon,
  type NativeResult,
} from './addon.js';

const addon = loadAddon();

export interface UnaryTask {
  method: Exclude<keyof Addon, 'fillMetadata'>;
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
  if (task.method === 'fillMetadata') {
    const result = addon.fillMetadata(task.request, task.buffer);
    const answer: FillAnswer = { result, buffer: task.buffer };
    return move({
      get [transferableSymbol]() {
        return answer.buffer;
      },
      get [valueSymbol]() {
        return answer;
      },
    });
  }
  const call = addon[task.method] as (request: unknown) => unknown;
  return call(task.request);
}
