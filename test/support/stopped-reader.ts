/**
 * A process that stops itself (SIGSTOP) in the middle of reading a catalogue, while it holds the transaction:
 *
 *   node stopped-reader.js <file> <longest read in ms>
 */

import { SqliteConnection } from '../../src/driver/database/connection.js';
import { killUnlessDone } from '../../src/driver/database/kill-timer.js';

const [file = '', milliseconds = ''] = process.argv.slice(2);
const database = SqliteConnection.readOnly(file, 1000);
killUnlessDone(Number(milliseconds), () => {
  database.exec('BEGIN');
  database.all('SELECT * FROM volumes');
  process.kill(process.pid, 'SIGSTOP');
});
