/** The rule by which a conforming caller repeats a call: while the driver is busy with its object, or restarts. */
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../base/errors.js';

const REPEATED: readonly number[] = [StatusCode.ABORTED, StatusCode.UNAVAILABLE];
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

/**
 * Resolves to the last outcome: one that is final, or what the driver still answers when the time is up. As much time as
 * a pause takes is left for each attempt: one that has too little would hide what the driver answers.
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
