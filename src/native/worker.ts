/**
 * The code that a pool thread runs: loads the addon once and calls one function a task.
 *
 * It knows nothing of what the functions do. A scan buffer arrives by transfer and leaves the same
 * way, so no bytes are copied between threads; JavaScript allocates it (memory from native code
 * would be cloned, or refused).
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
/** Warms a thread up: the answer comes when the addon is loaded. */
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
