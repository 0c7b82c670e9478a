/**
 * The thread that owns the catalogue's database.
 */
import { workerData } from 'piscina';
import {
  answer,
  type DatabaseAnswer,
  type DatabaseFile,
  type DatabaseTask,
} from '../database/thread-task.js';
import { openSqliteCatalogue, type SqliteCatalogue } from './sqlite-catalogue.js';

let catalogue: SqliteCatalogue | null = null;

export default function perform({ method, args }: DatabaseTask): DatabaseAnswer {
  return answer(() => {
    catalogue ??= openSqliteCatalogue((workerData as DatabaseFile).file);
    const call = catalogue[method as keyof SqliteCatalogue] as (...values: unknown[]) => unknown;
    return call(...args);
  }, 'no space left for the catalogue in the state directory');
}
