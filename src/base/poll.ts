/** Polls at an interval until a condition holds, for states that the kernel does not announce. */
import { setTimeout as delay } from 'node:timers/promises';

export interface PollOptions {
  /** Pause between the end of one probe and the start of the next. */
  intervalMs: number;
  /** After this time there is one last probe. */
  timeoutMs: number;
  /** Ends the polling between two probes; pollUntil then rejects with the signal's reason. */
  signal?: AbortSignal;
}

/**
 * Resolves to the first answer of `probe` that is neither null nor false, or to null if there is none in time. Probes at least
 * once. An error that a probe throws ends the polling.
 */
export async function pollUntil<T>(
  probe: () => T | Promise<T>,
  { intervalMs, timeoutMs, signal }: PollOptions,
): Promise<Exclude<T, null | false> | null> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    signal?.throwIfAborted();
    const answer = await probe();
    if (answer !== null && answer !== false) return answer as Exclude<T, null | false>;
    const remainingMs = deadline - performance.now();
    if (remainingMs <= 0) return null;
    await delay(Math.min(intervalMs, remainingMs), undefined, signal === undefined ? {} : { signal }).catch(
      () => undefined,
    );
  }
}
