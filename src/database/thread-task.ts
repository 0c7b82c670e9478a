/**
 * What crosses between the event loop and a thread that owns a database: calls there, answers back.
 * Errors cross as data, since they lose their fields otherwise.
 */
import { CsiError, errorCode, type StatusCode } from '../errors.js';

export interface DatabaseTask {
  method: string;
  args: unknown[];
}
export type DatabaseAnswer =
  | { ok: true; value: unknown }
  | { ok: false; code: StatusCode; message: string; cause: string };

/** What a thread is given when it starts. */
export interface DatabaseFile {
  file: string;
}

/**
 * Runs one call on the thread.
 *
 * @param fullMessage what to say when the disk below the database is full
 */
export function answer(call: () => unknown, fullMessage: string): DatabaseAnswer {
  try {
    return { ok: true, value: call() };
  } catch (thrown) {
    const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    const error =
      errorCode(thrown) === 'SQLITE_FULL'
        ? CsiError.resourceExhausted(fullMessage)
        : CsiError.from(thrown);
    return { ok: false, code: error.code, message: error.message, cause };
  }
}
