/** Locks on open files. The kernel releases them when their process ends. */
import { loadBinary } from './binaries.js';
import { type NativeResult, toSystemError } from './native-result.js';

export interface FileLockAddon {
  /**
   * Takes an exclusive flock on an open file of this process without waiting. The lock ends when
   * the file is closed.
   */
  tryLock(request: { descriptor: number }): NativeResult<{ locked: boolean }>;
}

/**
 * Takes an exclusive flock without waiting. The lock lasts until the descriptor is closed. Returns false if another process has
 * the lock. Throws SystemError.
 */
export function tryLock(descriptor: number): boolean {
  const answer = (loadBinary('blockdelta.node') as FileLockAddon).tryLock({ descriptor });
  if (answer.ok) return answer.locked;
  throw toSystemError(answer);
}
