/** Calls the addon on the calling thread: for commands, which have nothing else to do meanwhile. */
import { type NativeResult, toSystemError } from '../../base/system/native-result.js';
import { loadCalls } from './file-calls.js';
import type { NativeRunner } from './pool.js';

export const onThisThread: NativeRunner = {
  async run(method, request) {
    const call = loadCalls()[method] as (request: unknown) => NativeResult<object>;
    const result = call(request);
    if (!result.ok) throw toSystemError(result);
    return result as never;
  },
};
