/**
 * The catalogue for the event loop: each call goes to the thread that owns the database.
 */
import { type OpenDatabase, openDatabase } from '../database/database-thread.js';
import type { DatabaseEvent } from '../database/thread-task.js';
import { CATALOGUE_CALLS } from './catalogue-calls.js';
import type { Catalogue } from './records.js';

export type OpenCatalogue = OpenDatabase<Catalogue>;

/**
 * Opens the catalogue file. Rejects with FAILED_PRECONDITION if another process has it open, or if it
 * is damaged or something else.
 */
export function openCatalogue(
  file: string,
  onEvent?: (event: DatabaseEvent) => void,
): Promise<OpenCatalogue> {
  return openDatabase<Catalogue>({
    worker: new URL('./catalogue-worker.js', import.meta.url),
    file: { file },
    kinds: CATALOGUE_CALLS,
    first: 'unfinished',
    onEvent,
  });
}
