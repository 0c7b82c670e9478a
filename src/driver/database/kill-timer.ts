/** A kernel timer that kills this process, even while the process is stopped. */
import { loadBinary } from '../../base/system/binaries.js';
import { type NativeResult, toSystemError } from '../../base/system/native-result.js';

/** The part of the addon that has the timer (timer_create(2)). */
interface KillTimerAddon {
  /** Sends SIGKILL to this process after that time, unless the timer is stopped. */
  startKillTimer(request: { milliseconds: number }): NativeResult<{ timer: number }>;
  stopKillTimer(request: { timer: number }): NativeResult<object>;
}

/**
 * Runs `work`, which must not take longer than `milliseconds` because it holds something that others wait for. After that time
 * the kernel kills the process, whatever the process does, even if somebody has stopped it (SIGSTOP). Throws SystemError.
 */
export function killUnlessDone<T>(milliseconds: number, work: () => T): T {
  const addon = loadBinary('blockdelta.node') as KillTimerAddon;
  const started = addon.startKillTimer({ milliseconds });
  if (!started.ok) throw toSystemError(started);
  try {
    return work();
  } finally {
    addon.stopKillTimer({ timer: started.timer });
  }
}
