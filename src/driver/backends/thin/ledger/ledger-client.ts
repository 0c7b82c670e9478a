/**
 * The ledger for the event loop: each call runs on the thread that owns the database. Imports the
 * implementation for its types alone, so the event loop loads no SQL.
 */
import { assertOwnDatabase } from '../../../../base/system/own-files.js';
import type { AsyncCalls } from '../../../database/calls.js';
import { type OpenDatabase, openDatabase } from '../../../database/database-thread.js';
import type { DatabaseEvent } from '../../../database/thread-task.js';
import type { Ledger } from './sqlite-ledger.js';

export type AsyncLedger = AsyncCalls<Ledger>;
export type OpenLedger = OpenDatabase<Ledger>;

/** Opens or creates the ledger's file. FAILED_PRECONDITION if it is damaged, not a ledger, or others can replace it. */
export async function openLedger(file: string, onEvent?: (event: DatabaseEvent) => void): Promise<OpenLedger> {
  await assertOwnDatabase(file);
  return openDatabase<Ledger>({
    worker: new URL('./sqlite-ledger.js', import.meta.url),
    file,
    onEvent,
  });
}
