/** Locks of open files that the kernel releases when their process ends. */
import { SystemError } from '../base/errors.js';
import { loadAddon } from './addon.js';

/** Takes an exclusive flock without waiting; it lasts until the descriptor is closed. False: another process has it. */
export function tryLock(descriptor: number): boolean {
  const answer = loadAddon().tryLock({ descriptor });
  if (answer.ok) return answer.locked;
  throw new SystemError(answer.code, answer.syscall, answer.path, answer.message);
}
