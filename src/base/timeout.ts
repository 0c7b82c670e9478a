/** Waiting for an answer that may never come: a disk that is dead does not answer at all. */
import { setTimeout as delay } from 'node:timers/promises';

/**
 * The answer, or what `late` returns or throws if there is none in time. The question goes on by itself
 * then, and a failure of it is nobody's: whoever asks sees to it that it is not asked again meanwhile.
 */
export async function withTimeout<T, L>(
  question: Promise<T>,
  timeoutMs: number,
  late: () => L,
): Promise<T | L> {
  question.catch(() => undefined);
  const timer = new AbortController();
  const timeout = delay(timeoutMs, undefined, { signal: timer.signal }).then(late);
  timeout.catch(() => undefined);
  try {
    return await Promise.race([question, timeout]);
  } finally {
    timer.abort();
  }
}
