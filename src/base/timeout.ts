/** Bounds how long a caller waits. A dead disk does not return an error: it does not answer at all. */

/**
 * The result of `operation`, or what `onTimeout` returns or throws once `timeoutMs` have passed or
 * `signal` has aborted, whichever comes first.
 *
 * The operation is not stopped: it runs on, and its later failure is ignored. A caller whose operation
 * holds a thread until it ends must not start another meanwhile (see single-flight.ts).
 */
export async function withTimeout<T, L>(
  operation: Promise<T>,
  timeoutMs: number,
  onTimeout: () => L,
  signal?: AbortSignal,
): Promise<T | L> {
  operation.catch(() => undefined);
  let giveUp = (): void => undefined;
  const timeout = new Promise<L>((resolve, reject) => {
    giveUp = () => {
      try {
        resolve(onTimeout());
      } catch (thrown) {
        reject(thrown);
      }
    };
  });
  const timer = setTimeout(giveUp, timeoutMs);
  signal?.addEventListener('abort', giveUp);
  if (signal?.aborted === true) giveUp();
  try {
    return await Promise.race([operation, timeout]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', giveUp);
  }
}

/** The result of `operation`, or a rejection with the signal's reason once the signal has aborted. The operation runs on. */
export async function untilAborted<T>(operation: Promise<T>, signal: AbortSignal): Promise<T> {
  operation.catch(() => undefined);
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) onAbort();
  });
  try {
    return await Promise.race([operation, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
