/** What Identity.Probe answers, of the plugin and of a router alike. */
import { pollUntil } from '../poll.js';
import type { CallContext } from './service.js';

/** Longer than an ordinary start takes, and no longer than one that waits for a disk should go unnoticed. */
const MOST_WAIT_MS = 5000;
const POLL_MS = 20;

/**
 * Waits for the end of a start, for at most half of the time that the caller has: clients take "not ready" for a failure, and
 * Velero, for one, makes a full copy then.
 *
 * @param isReady asked again and again while it is false; its rejection is the answer
 */
export async function probe(
  isReady: () => Promise<boolean>,
  { deadline, signal }: Pick<CallContext, 'deadline' | 'signal'>,
): Promise<{ ready: { value: boolean } }> {
  const timeoutMs = Math.min(MOST_WAIT_MS, halfOfRest(deadline));
  const found = await pollUntil(isReady, { intervalMs: POLL_MS, timeoutMs, signal });
  return { ready: { value: found !== null } };
}

/** How long a call may wait for a start, so that its caller has as much time for what follows. */
export const halfOfRest = (deadline: number): number => Math.max(0, (deadline - Date.now()) / 2);
