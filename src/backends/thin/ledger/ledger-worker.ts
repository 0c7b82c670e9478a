/**
 * The thread that owns the database of one pool's ledger.
 */
import { workerData } from 'piscina';
import { DatabaseService } from '../../../database/database-service.js';
import type { DatabaseAnswer, DatabaseFile, DatabaseTask } from '../../../database/thread-task.js';
import { LEDGER_CALLS } from './ledger-calls.js';
import { ledgerCalls, ledgerUse } from './sqlite-ledger.js';

const { file } = workerData as DatabaseFile;
const service = new DatabaseService(ledgerUse(file), LEDGER_CALLS, ledgerCalls);

export default function perform(task: DatabaseTask): DatabaseAnswer {
  return service.perform(task);
}
