/**
 * Schema migration: runs the steps that a file has not seen, and checks that its tables are those of the
 * version it claims.
 */

import { SqliteConnection } from './connection.js';
import { type DatabaseDefinition, damaged } from './definition.js';

type Schema = Pick<DatabaseDefinition, 'label' | 'file' | 'remedy' | 'steps'>;

/**
 * Runs the steps that the database has not seen. FAILED_PRECONDITION if a newer plugin has written the
 * file, or if its tables are not those of its version.
 */
export function migrate(database: SqliteConnection, schema: Schema): void {
  const { steps } = schema;
  const version = Number(database.get('PRAGMA user_version')?.['user_version']);
  if (version > steps.length) {
    throw damaged(
      { ...schema, remedy: 'run that version, or a newer one' },
      `cannot be used: its schema version is ${version} and this plugin knows ${steps.length}: a newer ` +
        'blockdelta has written it',
    );
  }
  assertSchema(database, schema, version);
  runSteps(database, steps, version);
}

function runSteps(database: SqliteConnection, steps: readonly string[], version: number): void {
  for (let next = version; next < steps.length; next += 1) {
    database.transaction(() => {
      database.exec(steps[next] ?? '');
      database.exec(`PRAGMA user_version = ${next + 1}`);
    });
  }
}

/** Every table, column and index of the version must exist. Additional ones do no harm. */
function assertSchema(database: SqliteConnection, schema: Schema, version: number): void {
  const model = SqliteConnection.inMemory();
  try {
    runSteps(model, schema.steps.slice(0, version), 0);
    const found = new Set(parts(database));
    const missing = parts(model).find((part) => !found.has(part));
    if (missing !== undefined) {
      throw damaged(schema, `lacks a part of its schema version ${version}: ${missing}`);
    }
    if (version === 0 && found.size > 0) throw damaged(schema, 'is a database of another program');
  } finally {
    model.close();
  }
}

const PARTS = `
  SELECT 'column ' || tables.name || '.' || columns.name || ' ' || columns.type ||
      iif(columns."notnull", ' NOT NULL', '') || iif(columns.pk, ' KEY', '') AS part
    FROM sqlite_schema AS tables JOIN pragma_table_xinfo(tables.name) AS columns
    WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%'
  UNION ALL
  SELECT 'index ' || name FROM sqlite_schema WHERE type = 'index' AND name NOT LIKE 'sqlite%'`;

/** Columns and indexes, without those that SQLite creates by itself. */
function parts(database: SqliteConnection): string[] {
  return database.all(PARTS).map((row) => String(row['part']));
}
