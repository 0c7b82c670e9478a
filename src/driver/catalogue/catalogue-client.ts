/**
 * The catalogue for the event loop: each call runs on the thread that owns the database. Imports the
 * implementation for its types alone, so the event loop loads no SQL.
 */
import type { AsyncCalls } from '../database/calls.js';
import {
  type DatabaseObserver,
  type OpenDatabase,
  openDatabase,
} from '../database/database-thread.js';
import type { DatabaseEvent } from '../database/thread-task.js';
import type { Catalogue } from './sqlite-catalogue.js';

export type AsyncCatalogue = AsyncCalls<Catalogue>;
export type OpenCatalogue = OpenDatabase<Catalogue>;

/**
 * Opens or creates the catalogue's file. Rejects with FAILED_PRECONDITION if another process has it open,
 * or if it is damaged or not a catalogue.
 */
export function openCatalogue(
  file: string,
  onEvent?: (event: DatabaseEvent) => void,
  observer?: DatabaseObserver,
): Promise<OpenCatalogue> {
  return openDatabase<Catalogue>({
    worker: new URL('./sqlite-catalogue.js', import.meta.url),
    file,
    onEvent,
    observer,
  });
}
