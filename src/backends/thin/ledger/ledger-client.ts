/**
 * The ledger for the event loop: each call goes to the thread that owns the database.
 */
import { openDatabase } from '../../../database/database-thread.js';
import type { DatabaseEvent } from '../../../database/thread-task.js';
import type { Ledger, OpenLedger } from './ledger.js';
import { LEDGER_CALLS } from './ledger-calls.js';

/** Opens the ledger's file, or makes it. FAILED_PRECONDITION if it is damaged or something else. */
export function openLedger(
  file: string,
  onEvent?: (event: DatabaseEvent) => void,
): Promise<OpenLedger> {
  return openDatabase<Ledger>({
    worker: new URL('./ledger-worker.js', import.meta.url),
    file: { file },
    kinds: LEDGER_CALLS,
    first: 'retainedBases',
    onEvent,
  });
}
