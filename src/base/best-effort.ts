/**
 * Clean-up after a failed step. A failure of the clean-up must not hide the failure of the step.
 *
 * This is only for a clean-up that is repeated anyway, by the next call for the object or by the next start. Knows one method
 * of the logger, and nothing of what is cleaned up.
 */
import { CsiError } from './errors.js';
import type { Logger } from './logger.js';

/** What a failed clean-up leaves behind. */
export interface Leftover {
  /** What stays, with the ids and paths of the objects; no secrets. */
  stays: string;
  /** Who removes the leftover, and when. */
  removedBy: string;
}

/** Runs a clean-up and never rejects. `onFailure` reports what stays; `unreported` is for callers that report nothing. */
export async function bestEffort(cleanup: () => Promise<unknown>, onFailure: (thrown: unknown) => void): Promise<void> {
  try {
    await cleanup();
  } catch (thrown) {
    onFailure(thrown);
  }
}

/** Use this only where nothing stays, or where the code itself remembers what stays and tries again. */
export const unreported = (): void => undefined;

/** Logs one warning with the failure. */
export function logLeftover(logger: Pick<Logger, 'warn'>, leftover: Leftover) {
  return (thrown: unknown): void => logger.warn({ ...leftover, err: CsiError.from(thrown) }, 'a clean-up failed');
}
