/**
 * The ledger for the event loop: each call runs on the thread that owns the database. Imports the
 * implementation for its types alone, so the event loop loads no SQL.
 */
import type { AsyncCalls } from '../../../database/calls.js';
import { type OpenDatabase, openDatabase } from '../../../database/database-thread.js';
import type { DatabaseEvent } from '../../../database/thread-task.js';
import type { Ledger } from './sqlite-ledger.js';

export type AsyncLedger = AsyncCalls<Ledger>;
export type OpenLedger = OpenDatabase<Ledger>;

/** Opens or creates the ledger's file. FAILED_PRECONDITION if it is damaged or not a ledger. */
export function openLedger(
  file: string,
  onEvent?: (event: DatabaseEvent) => void,
): Promise<OpenLedger> {
  return openDatabase<Ledger>({
    worker: new URL('./sqlite-ledger.js', import.meta.url),
    file,
    onEvent,
  });
}
