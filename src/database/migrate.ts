/** Schemas as steps from one PRAGMA user_version to the next. */
import type { KeptDatabase } from './kept-database.js';

/** Runs the steps that the database has not seen. Throws if a newer plugin has written it. */
export function migrate(database: KeptDatabase, steps: readonly string[]): void {
  const version = Number(database.get('PRAGMA user_version')?.['user_version']);
  if (version > steps.length) {
    throw new Error(
      `its schema version is ${version} and this plugin knows ${steps.length}: a newer blockdelta has written it`,
    );
  }
  for (let next = version; next < steps.length; next += 1) {
    database.transaction(() => {
      database.exec(steps[next] ?? '');
      database.exec(`PRAGMA user_version = ${next + 1}`);
    });
  }
}
