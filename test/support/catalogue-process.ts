/**
 * A process that inserts volumes and snapshots into a catalogue for ever, one line with the ids each:
 *
 *   node catalogue-process.js <file>
 */
import { openCatalogueHere } from './direct-database.js';
import { snapshotRecord, volumeRecord } from './records.js';

const catalogue = openCatalogueHere(process.argv[2] ?? '');
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
