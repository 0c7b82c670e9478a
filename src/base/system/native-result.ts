/** The results of the addon's functions. Knows no function. */
import { SystemError } from '../errors.js';

/**
 * A failed call. `code` is an errno name (ENOSPC), a SCAN_* reason, SNAPSHOT_BUSY, or a code of
 * driver/native/thin-addon.ts or dm-addon.ts; `path` is the object the call acted on.
 */
export interface NativeFailure {
  ok: false;
  code: string;
  errno: number;
  syscall: string;
  path: string;
  message: string;
}
export type NativeResult<T> = ({ ok: true } & T) | NativeFailure;

export function toSystemError(failure: NativeFailure): SystemError {
  return new SystemError(failure.code, failure.syscall, failure.path, failure.message);
}
