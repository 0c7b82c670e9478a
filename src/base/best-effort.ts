/**
 * Clean-up behind a failed step, whose own failure must not hide the first one.
 *
 * Only for what is repeated anyway, by the next call for the object or by the next start. Knows logs by one
 * method, and nothing of what is cleaned up.
 */
import { CsiError } from './errors.js';
import type { Logger } from './logger.js';

/** What a clean-up that failed leaves. */
export interface Leftover {
  /** With the ids and paths of the objects; no secrets. */
  stays: string;
  /** Who removes it, and when. */
  removedBy: string;
}

/** Never rejects. `onFailure` says what stays; `unreported` is for where nobody has to know. */
export async function bestEffort(
  cleanup: () => Promise<unknown>,
  onFailure: (thrown: unknown) => void,
): Promise<void> {
  try {
    await cleanup();
  } catch (thrown) {
    onFailure(thrown);
  }
}

/** Only where nothing stays, or where the code remembers by itself what stays and tries again. */
export const unreported = (): void => undefined;

/** One warning, with the failure. */
export function logLeftover(logger: Pick<Logger, 'warn'>, leftover: Leftover) {
  return (thrown: unknown): void =>
    logger.warn({ ...leftover, err: CsiError.from(thrown) }, 'a clean-up failed');
}
