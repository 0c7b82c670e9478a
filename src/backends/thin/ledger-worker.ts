/**
 * The thread that owns the database of one pool's ledger.
 */
import { workerData } from 'piscina';
import { KeptDatabase } from '../../database/kept-database.js';
import {
  answer,
  type DatabaseAnswer,
  type DatabaseFile,
  type DatabaseTask,
} from '../../database/thread-task.js';
import type { Ledger } from './ledger.js';
import { ledgerCalls } from './sqlite-ledger.js';

/** Another connection of this plugin may be writing. */
const LOCK_TIMEOUT_MS = 5000;

let ledger: (Ledger & { close(): void }) | null = null;

export default function perform({ method, args }: DatabaseTask): DatabaseAnswer {
  return answer(() => {
    ledger ??= open((workerData as DatabaseFile).file);
    const call = ledger[method as keyof Ledger] as (...values: unknown[]) => unknown;
    return call(...args);
  }, "no space left for the pool's ledger in its directory");
}

function open(file: string): Ledger & { close(): void } {
  const database = new KeptDatabase(file, LOCK_TIMEOUT_MS);
  try {
    return { ...ledgerCalls(database), close: () => database.close() };
  } catch (thrown) {
    database.close();
    throw thrown;
  }
}
