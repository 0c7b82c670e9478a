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
  /** The message is what stands before and after the path. If `after` is empty, `before` is the whole message. */
  before: string;
  after: string;
}
export type NativeResult<T> = ({ ok: true } & T) | NativeFailure;

export function toSystemError({ code, syscall, path, before, after }: NativeFailure): SystemError {
  return new SystemError(code, syscall, path, after === '' ? before : (named) => before + named + after);
}
