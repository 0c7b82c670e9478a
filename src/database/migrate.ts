/** Schemas as steps from one PRAGMA user_version to the next, and whether a file has the one it claims. */
import { type DatabaseUse, damaged } from './database-use.js';
import { KeptDatabase } from './kept-database.js';

type Schema = Pick<DatabaseUse, 'label' | 'file' | 'remedy' | 'steps'>;

/**
 * Runs the steps that the database has not seen. FAILED_PRECONDITION if a newer plugin has written it,
 * or if its tables are not the ones of the version that it has.
 */
export function migrate(database: KeptDatabase, use: Schema): void {
  const { steps } = use;
  const version = Number(database.get('PRAGMA user_version')?.['user_version']);
  if (version > steps.length) {
    throw damaged(
      { ...use, remedy: 'run that version, or a newer one' },
      `cannot be used: its schema version is ${version} and this plugin knows ${steps.length}: a newer ` +
        'blockdelta has written it',
    );
  }
  assertSchema(database, use, version);
  runSteps(database, steps, version);
}

function runSteps(database: KeptDatabase, steps: readonly string[], version: number): void {
  for (let next = version; next < steps.length; next += 1) {
    database.transaction(() => {
      database.exec(steps[next] ?? '');
      database.exec(`PRAGMA user_version = ${next + 1}`);
    });
  }
}

/** Of what the version has, every table, column and index has to be there. */
function assertSchema(database: KeptDatabase, use: Schema, version: number): void {
  const model = KeptDatabase.inMemory();
  try {
    runSteps(model, use.steps.slice(0, version), 0);
    const found = new Set(parts(database));
    const missing = parts(model).find((part) => !found.has(part));
    if (missing !== undefined) {
      throw damaged(use, `lacks what belongs to its schema version ${version}: ${missing}`);
    }
    if (version === 0 && found.size > 0) throw damaged(use, 'is a database of another program');
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

/** Without what SQLite makes for itself. */
function parts(database: KeptDatabase): string[] {
  return database.all(PARTS).map((row) => String(row['part']));
}
