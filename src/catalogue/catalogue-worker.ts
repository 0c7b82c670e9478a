/**
 * The thread that owns the catalogue's database.
 */
import { workerData } from 'piscina';
import { DatabaseService } from '../database/database-service.js';
import type { DatabaseAnswer, DatabaseFile, DatabaseTask } from '../database/thread-task.js';
import { CATALOGUE_CALLS } from './catalogue-calls.js';
import { catalogueCalls, catalogueUse } from './sqlite-catalogue.js';

const { file } = workerData as DatabaseFile;
const service = new DatabaseService(catalogueUse(file), CATALOGUE_CALLS, catalogueCalls);

export default function perform(task: DatabaseTask): DatabaseAnswer {
  return service.perform(task);
}
