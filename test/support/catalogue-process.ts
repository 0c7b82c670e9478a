/**
 * A process that owns a catalogue and inserts volumes and snapshots into it for ever, one line with the ids each:
 *
 *   node catalogue-process.js <file>
 */
import { lockCatalogue } from '../../src/driver/catalogue/lock.js';
import { openCatalogueHere } from './direct-database.js';
import { snapshotRecord, volumeRecord } from './records.js';

const file = process.argv[2] ?? '';
const lock = await lockCatalogue(file);
// Node.js closes an open file that nobody refers to.
process.on('exit', () => void lock.release());
const catalogue = openCatalogueHere(file);
catalogue.registerPool('default', 'uuid-1');

function step(): void {
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const snapshot = catalogue.insertSnapshot(snapshotRecord(volume));
  // A line that is written synchronously is out before the next insert begins.
  process.stdout.write(`${volume.volumeId} ${snapshot.snapshotId}\n`);
  // As a plugin does between two requests.
  setTimeout(step, 1);
}
step();
