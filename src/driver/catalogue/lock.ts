/**
 * The catalogue's lock, which a running plugin holds: for commands that change what a plugin relies on. Changes
 * nothing in the file.
 */
import { existsSync } from 'node:fs';
import { CsiError } from '../../base/errors.js';
import { SqliteConnection } from '../database/connection.js';
import { explainFailure } from '../database/definition.js';
import { catalogueDefinition } from './sqlite-catalogue.js';

export interface CatalogueLock {
  release(): void;
}

/** FAILED_PRECONDITION if a plugin, or another such command, has it. Until it is released no plugin can start. */
export function lockCatalogue(file: string): CatalogueLock {
  if (!existsSync(file)) throw CsiError.notFound(`there is no catalogue ${file}`);
  const database = new SqliteConnection(file, 0);
  try {
    database.exec('PRAGMA locking_mode = EXCLUSIVE');
    database.exec('BEGIN EXCLUSIVE');
  } catch (thrown) {
    database.close();
    throw explainFailure(catalogueDefinition(file), thrown);
  }
  return {
    release: () => {
      database.exec('ROLLBACK');
      database.close();
    },
  };
}
