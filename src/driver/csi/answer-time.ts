/** How long a call may wait for what may never happen, and still answer before its caller gives up. */
import type { CallContext } from '../../base/csi/service.js';

/** For the answer to reach the caller. */
const ANSWER_MS = 1000;
/** For a caller that sets no deadline. */
const DEFAULT_MS = 60_000;

/** Milliseconds. Of a short time a quarter is for the answer. */
export function timeToWait({ deadline }: Pick<CallContext, 'deadline'>): number {
  if (!Number.isFinite(deadline)) return DEFAULT_MS;
  const leftMs = Math.max(deadline - Date.now(), 0);
  return leftMs - Math.min(ANSWER_MS, leftMs / 4);
}
