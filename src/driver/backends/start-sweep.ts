/**
 * The last step of a pool's start: removes what a killed run left unfinished. For all backends; knows no files.
 */
import { messageOf } from '../../base/errors.js';
import type { OnEvent } from './backend.js';

/** What `sweep` returns. Its failure is an event and does not fail the start: what stays takes space, and nothing else. */
export async function sweepAtStart(
  pool: string,
  onEvent: OnEvent | undefined,
  sweep: () => Promise<string[]>,
): Promise<string[]> {
  try {
    return await sweep();
  } catch (thrown) {
    const message =
      `pool '${pool}': the temporary files of a killed run were not all removed: ${messageOf(thrown)}; the next start ` +
      'tries again';
    onEvent?.({ level: 'warn', message });
    return [];
  }
}
