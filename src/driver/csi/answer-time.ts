/** How long a call may wait for an event that may never happen, and still answer before its caller gives up. */
import type { CallContext } from '../../base/csi/service.js';

/** The time that an answer needs to reach the caller. */
const ANSWER_MS = 1000;
/** The time to wait if the caller sets no deadline. */
const DEFAULT_MS = 60_000;

/** Milliseconds. If little time is left, a quarter of it is reserved for the answer. */
export function timeToWait({ deadline }: Pick<CallContext, 'deadline'>): number {
  if (!Number.isFinite(deadline)) return DEFAULT_MS;
  const leftMs = Math.max(deadline - Date.now(), 0);
  return leftMs - Math.min(ANSWER_MS, leftMs / 4);
}
