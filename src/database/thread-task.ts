/**
 * What crosses between the event loop and a thread that owns a database: calls there, answers back.
 * Errors cross as data, since they lose their fields otherwise.
 */
import type { StatusCode } from '../base/errors.js';
import { type DatabaseUse, explainFailure } from './database-use.js';

export interface DatabaseTask {
  method: string;
  args: unknown[];
}

/** Something an operator wants to know that is no failure of the call. */
export interface DatabaseEvent {
  level: 'info' | 'warn';
  message: string;
}

export type DatabaseAnswer = { events?: readonly DatabaseEvent[] } & (
  | { ok: true; value: unknown }
  | { ok: false; code: StatusCode; message: string; cause: string }
);

/** What a thread is given when it starts. */
export interface DatabaseFile {
  file: string;
}

/** Runs one call on the thread. */
export function answer(call: () => unknown, use: DatabaseUse): DatabaseAnswer {
  try {
    return { ok: true, value: call() };
  } catch (thrown) {
    const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    const { code, message } = explainFailure(use, thrown);
    return { ok: false, code, message, cause };
  }
}
