/**
 * The addon called on the caller's own thread: a thread costs a second to start on an emulated processor, and each
 * call a good deal of it. For backends, of whose calls none waits for what this process does meanwhile.
 */
import { type NativeFailure, type NativeResult, toSystemError } from '../../src/base/system/native-result.js';
import type { FillRequest, FillResult } from '../../src/driver/native/addon.js';
import { loadCalls } from '../../src/driver/native/file-calls.js';
import type { NativeFiller, NativeRunner } from '../../src/driver/native/pool.js';

type Calls = Record<string, (request: unknown) => { ok: true } | NativeFailure>;

export type NativeHere = NativeRunner & NativeFiller;

export function nativeHere(): NativeHere {
  return {
    run: async (method: string, request: unknown): Promise<object> => {
      const answer = (loadCalls() as unknown as Calls)[method]?.(request);
      if (answer === undefined) throw new Error(`the addon has no ${method}`);
      if (!answer.ok) throw toSystemError(answer);
      return answer;
    },
    fill: async (request: FillRequest, buffer: ArrayBuffer) => {
      const result: NativeResult<FillResult> = loadCalls().fillMetadata(request, buffer);
      return { result, buffer };
    },
  } as NativeHere;
}
