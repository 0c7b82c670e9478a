/**
 * The catalogue for the event loop: each call runs on the thread that owns the database. Imports the
 * implementation for its types alone, so the event loop loads no SQL.
 */
import type { AsyncCalls } from '../database/calls.js';
import { type DatabaseObserver, type OpenDatabase, openDatabase } from '../database/database-thread.js';
import type { DatabaseEvent } from '../database/thread-task.js';
import { type CatalogueLock, lockCatalogue } from './lock.js';
import type { Catalogue } from './sqlite-catalogue.js';

export type AsyncCatalogue = AsyncCalls<Catalogue>;
export type OpenCatalogue = OpenDatabase<Catalogue>;

/**
 * Becomes the catalogue's owner, and opens or creates its file. Rejects with FAILED_PRECONDITION if another process is the
 * owner, or if the file is damaged or is not a catalogue.
 *
 * @param prepared the directory exists; a rejection is passed on
 */
export async function openCatalogue(
  file: string,
  onEvent?: (event: DatabaseEvent) => void,
  observer?: DatabaseObserver,
  prepared?: Promise<unknown>,
): Promise<OpenCatalogue> {
  let lock: CatalogueLock | undefined;
  const takeLock = async (): Promise<void> => {
    await prepared;
    lock = await lockCatalogue(file);
  };
  try {
    const worker = new URL('./sqlite-catalogue.js', import.meta.url);
    const { close, ...calls } = await openDatabase<Catalogue>({ worker, file, onEvent, observer, ready: takeLock });
    const release = async (): Promise<void> => {
      await close();
      await lock?.release();
    };
    return { ...calls, close: release } as OpenCatalogue;
  } catch (thrown) {
    await lock?.release();
    throw thrown;
  }
}
