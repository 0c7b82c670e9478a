/**
 * A copy of the catalogue while it is in use, as a file that can take its place.
 *
 * What is being made at that moment is left out: whoever restores the copy later would take it for a
 * creation that a kill interrupted, and the next start would undo what has long been in use. Its storage
 * is then unknown to the copy, which keeps it from being touched.
 */
import type { KeptDatabase } from '../database/kept-database.js';

export function backUp(database: KeptDatabase, file: string): void {
  const name = `'${file.replaceAll("'", "''")}'`;
  database.exec(`VACUUM INTO ${name}`);
  database.exec(`ATTACH ${name} AS copy`);
  try {
    database.exec("DELETE FROM copy.snapshots WHERE state = 'creating'");
    database.exec("DELETE FROM copy.group_snapshots WHERE state = 'creating'");
    database.exec("DELETE FROM copy.volumes WHERE state = 'creating'");
  } finally {
    database.exec('DETACH copy');
  }
}
