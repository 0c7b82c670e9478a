/** Repeats a call as a conforming caller does: while the driver is busy with the call's object, or restarts. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';

const REPEATED: readonly number[] = [StatusCode.ABORTED, StatusCode.UNAVAILABLE];
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

/**
 * Resolves to the last outcome: a final one, or the driver's answer when the time is up. Each attempt has at least as
 * much time as the pause before it, because an attempt with too little time would hide the driver's answer.
 *
 * @param codeOf the status of an outcome
 * @param deadline milliseconds since the epoch
 */
export async function whileBusy<Outcome>(
  attempt: () => Promise<Outcome>,
  codeOf: (outcome: Outcome) => number,
  deadline: number,
  signal: AbortSignal,
): Promise<Outcome> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    const outcome = await attempt();
    const isFinal = !REPEATED.includes(codeOf(outcome));
    if (isFinal || signal.aborted || Date.now() + 2 * pause > deadline) return outcome;
    await delay(pause, undefined, { signal }).catch(() => undefined);
  }
}
