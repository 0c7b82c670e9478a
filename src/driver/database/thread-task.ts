/**
 * The messages between the event loop and a thread that owns a database: tasks one way, answers the
 * other. Errors cross as data, because structured cloning drops their fields.
 */
import type { StatusCode } from '../../base/errors.js';
import { type DatabaseDefinition, explainFailure } from './definition.js';

export interface DatabaseTask {
  method: string;
  args: unknown[];
}

/** Methods that every thread has beside the calls of its database. OPEN answers CallDescription[]. */
export const OPEN = 'open';
export const IDLE = 'idle';
export const CLOSE = 'close';

export interface CallDescription {
  method: string;
  onlyReads: boolean;
}

/** Something for the log that is not a failure of the call. */
export interface DatabaseEvent {
  level: 'info' | 'warn';
  message: string;
}

export type DatabaseAnswer = { events?: readonly DatabaseEvent[] } & (
  | { ok: true; value: unknown }
  | { ok: false; code: StatusCode; message: string; cause: string }
);

/** A thread's workerData. */
export interface DatabaseFile {
  file: string;
}

/** Runs one call on the thread. */
export function answer(call: () => unknown, definition: DatabaseDefinition): DatabaseAnswer {
  try {
    return { ok: true, value: call() };
  } catch (thrown) {
    const cause = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
    const { code, message } = explainFailure(definition, thrown);
    return { ok: false, code, message, cause };
  }
}
