/**
 * A process that opens the catalogue, for tests with two processes or a killed one.
 *
 *   node catalogue-process.js <file> open       opens it and says OPEN, or REFUSED <code> <message>
 *   node catalogue-process.js <file> insert     inserts volumes for ever, one line with the id each
 */
import { CsiError } from '../../src/base/errors.js';
import { type DirectCatalogue, openCatalogueHere } from './direct-database.js';
import { snapshotRecord, volumeRecord } from './records.js';

const [file = '', action = ''] = process.argv.slice(2);

function say(line: string): void {
  // A line that is written synchronously is out before the next insert begins.
  process.stdout.write(`${line}\n`);
}

function insertForEver(catalogue: DirectCatalogue): void {
  catalogue.registerPool('default', 'uuid-1');
  const step = (): void => {
    const volume = volumeRecord();
    catalogue.insertVolume(volume);
    const snapshot = catalogue.insertSnapshot(snapshotRecord(volume));
    say(`${volume.volumeId} ${snapshot.snapshotId}`);
    // As a plugin does between two requests.
    setTimeout(step, 1);
  };
  step();
}

try {
  const catalogue = openCatalogueHere(file);
  if (action === 'insert') insertForEver(catalogue);
  else {
    say('OPEN');
    catalogue.close();
  }
} catch (thrown) {
  const error = CsiError.from(thrown);
  say(`REFUSED ${error.code} ${error.message}`);
}
