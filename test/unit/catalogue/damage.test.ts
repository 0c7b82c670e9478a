/** A damaged catalogue, or another file in its place, is refused with its name and a remedy before any row is read. */
import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, test } from 'node:test';
import { pino } from 'pino';
import { CatalogueBackups, outdated } from '../../../src/driver/catalogue/backups.js';
import { openCatalogue } from '../../../src/driver/catalogue/catalogue-client.js';
import { catalogueContents } from '../../../src/driver/catalogue/contents.js';
import { acceptLostChanges } from '../../../src/driver/catalogue/lost-changes.js';
import type { ReplicaRecord } from '../../../src/driver/catalogue/records.js';
import { SqliteConnection } from '../../../src/driver/database/connection.js';
import { openCatalogueHere } from '../../support/direct-database.js';
import { eventually } from '../../support/eventually.js';
import { Random } from '../../support/random.js';
import { replicaRecord, snapshotRecord, volumeRecord } from '../../support/records.js';
import { refused, throwsRefusal } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

let directory: string;
let file: string;

beforeEach(() => {
  directory = temporaryDirectory();
  file = join(directory, 'catalogue.sqlite');
});

/** Creates a catalogue with that many volumes and a snapshot of each. Returns the ids of the volumes. */
function fill(count: number): string[] {
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  const ids: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const volume = volumeRecord();
    catalogue.insertVolume(volume);
    catalogue.insertSnapshot(snapshotRecord(volume));
    ids.push(volume.volumeId);
  }
  catalogue.close();
  return ids;
}

function refusal(found: RegExp): void {
  const named = new RegExp(`${file.replaceAll('.', '\\.')} .*${found.source}.*restore a backup`);
  throwsRefusal(() => openCatalogueHere(file).close(), 'FAILED_PRECONDITION', named);
}

test('H21: garbage and a truncated catalogue are refused with the name and a remedy, and not changed', () => {
  fill(50);
  const whole = readFileSync(file);
  const half = whole.subarray(0, Math.floor(whole.length / 2 / 4096) * 4096);
  for (const [bytes, found] of [
    [Buffer.alloc(40_000, 'no catalogue '), /is not an SQLite database/],
    [half, /is damaged/],
  ] as const) {
    writeFileSync(file, bytes);
    refusal(found);
    assert.ok(readFileSync(file).equals(bytes));
  }
});

test('H21: random bytes in any page of the catalogue are detected before a row is read', () => {
  fill(60);
  const whole = readFileSync(file);
  const random = new Random(21);
  const pages = whole.length / 4096;
  assert.ok(pages > 15, `${pages} pages`);
  for (let page = 0; page < pages; page += 1) {
    const torn = Buffer.from(whole);
    random.bytes(4096).copy(torn, page * 4096);
    writeFileSync(file, torn);
    rmSync(`${file}-wal`, { force: true });
    assert.throws(() => openCatalogueHere(file).close(), { code: 9 }, `page ${page}`);
  }
});

test('H21: one wrong character of an id, in a table or in an index, is detected', () => {
  const [id = ''] = fill(5);
  const whole = readFileSync(file);
  let places = 0;
  for (let at = whole.indexOf(id); at !== -1; at = whole.indexOf(id, at + 1)) {
    const wrong = Buffer.from(whole);
    wrong.write('x', at + id.length - 1);
    writeFileSync(file, wrong);
    refusal(/is damaged/);
    places += 1;
  }
  assert.ok(places >= 4, `${places} places`);
});

test('H21: a database of another program, or one that lacks a column, is refused', () => {
  const other = new SqliteConnection(file, 0);
  other.exec('CREATE TABLE notes (text TEXT)');
  other.close();
  refusal(/is a database of another program/);
  rmSync(file);
  fill(1);
  const database = new SqliteConnection(file, 0);
  database.exec('ALTER TABLE volumes DROP COLUMN awaits_growth');
  database.close();
  refusal(/lacks .* column volumes.awaits_growth/);
});

/** The files of a catalogue whose process was killed before a checkpoint. */
function killedWithLog(): { log: Buffer; frameBytes: number } {
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  for (let index = 0; index < 8; index += 1) catalogue.insertVolume(volumeRecord());
  const copy = join(directory, 'killed.sqlite');
  copyFileSync(file, copy);
  for (const part of ['-wal', '-commits']) copyFileSync(`${file}${part}`, `${copy}${part}`);
  catalogue.close();
  file = copy;
  return { log: readFileSync(`${copy}-wal`), frameBytes: 24 + 4096 };
}

test('H21: a log that is damaged before committed transactions is refused, not rolled back', () => {
  const { log, frameBytes } = killedWithLog();
  for (const at of [7, 40, 32 + frameBytes + 5, 32 + 3 * frameBytes + 1000]) {
    const torn = Buffer.from(log);
    torn.writeUInt8((torn.readUInt8(at) + 1) % 256, at);
    writeFileSync(`${file}-wal`, torn);
    refusal(/write-ahead log/);
    assert.deepEqual(readFileSync(`${file}-wal`), torn, 'the log was changed');
  }
});

test('H21: a log whose last transaction was torn by a power failure is read up to that transaction', () => {
  const { log } = killedWithLog();
  const main = readFileSync(file);
  const commits = Number(readFileSync(`${file}-commits`, 'latin1'));
  const end = log.length;
  for (const torn of [log.subarray(0, end - 3000), Buffer.concat([log.subarray(0, end - 9), Buffer.alloc(9)])]) {
    // A kill after the commit of which the answer was never given, and a power failure that tore it.
    writeFileSync(file, main);
    writeFileSync(`${file}-wal`, torn);
    writeFileSync(`${file}-commits`, `${String(commits - 1).padStart(20, '0')}\n`);
    const catalogue = openCatalogueHere(file);
    assert.equal(catalogue.listVolumes().length, 7);
    catalogue.close();
  }
});

test('H21: an acknowledged change that a damaged log lost is missed until an operator accepts its loss', async () => {
  const { log, frameBytes } = killedWithLog();
  const torn = Buffer.from(log);
  torn.writeUInt8(0x5a, log.length - frameBytes + 30);
  writeFileSync(`${file}-wal`, torn);
  refusal(/has lost the last 1 changes that were acknowledged/);
  await refused(catalogueContents(file), 'FAILED_PRECONDITION', /has lost the last 1 changes/);
  assert.equal(await acceptLostChanges(file), 1n);
  assert.equal(await acceptLostChanges(file), 0n);
  assert.equal((await catalogueContents(file)).volumes.length, 7);
  const catalogue = openCatalogueHere(file);
  assert.equal(catalogue.listVolumes().length, 7);
  catalogue.close();
});

test('H21: a count that a kill left before its first record is none, and one that is no number is refused', () => {
  fill(1);
  writeFileSync(`${file}-commits`, '');
  fill(1);
  assert.match(readFileSync(`${file}-commits`, 'latin1'), /^\d+\n$/);
  writeFileSync(`${file}-commits`, '1');
  refusal(/has a damaged record of its commits/);
});

test('H21: a catalogue that is gone is not begun anew, and a backup takes its place once the count is removed', () => {
  fill(2);
  const catalogue = openCatalogueHere(file);
  const backup = join(directory, 'backup.sqlite');
  catalogue.backUp(backup);
  catalogue.insertVolume(volumeRecord());
  catalogue.close();
  rmSync(file);
  refusal(/is gone, with \d+ recorded changes/);
  copyFileSync(backup, file);
  refusal(/has lost the last 1 changes/);
  rmSync(`${file}-commits`);
  const restored = openCatalogueHere(file);
  assert.equal(restored.listVolumes().length, 2);
  restored.close();
});

test('H21: soon after the last change the file itself holds everything', async () => {
  const catalogue = await openCatalogue(file);
  await catalogue.registerPool('default', 'uuid-1');
  const volume = volumeRecord();
  await catalogue.insertVolume(volume);
  await eventually('the log is empty', () => statSync(`${file}-wal`).size === 0);
  const copy = join(directory, 'copy.sqlite');
  copyFileSync(file, copy);
  const found = openCatalogueHere(copy);
  assert.deepEqual(found.volumeById(volume.volumeId), volume);
  found.close();
  await catalogue.close();
});

test('H21: a log that is written without a pause is checkpointed as it grows', () => {
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  for (let index = 0; index < 400; index += 1) catalogue.insertVolume(volumeRecord());
  assert.ok(statSync(`${file}-wal`).size < 1 << 20, `${statSync(`${file}-wal`).size} bytes`);
  assert.ok(statSync(file).size > 100_000, `${statSync(file).size} bytes`);
  catalogue.close();
});

test('H21: a backup is a complete catalogue, with the objects that were being created', () => {
  const [id = ''] = fill(3);
  const catalogue = openCatalogueHere(file);
  const half = volumeRecord({ state: 'creating' });
  catalogue.insertVolume(half);
  const volume = catalogue.volumeById(id);
  assert.ok(volume !== null);
  const untaken = catalogue.insertSnapshot(snapshotRecord(volume, { state: 'creating' }));
  const copy = join(directory, "a 'backup'.sqlite");
  catalogue.backUp(copy);
  assert.equal(catalogue.volumeById(half.volumeId)?.state, 'creating');
  catalogue.close();
  assert.ok(!existsSync(`${copy}-wal`));
  const found = openCatalogueHere(copy);
  assert.deepEqual(found.volumeById(id), volume);
  assert.deepEqual(found.unfinished(), { volumes: [half], snapshots: [untaken], groups: [] });
  found.close();
});

/** A replica, and a part of one. */
function pulled(): { whole: ReplicaRecord; part: ReplicaRecord } {
  const volume = volumeRecord();
  const whole = replicaRecord(volume, { snapshotId: 'whole', nextOffset: null });
  const part = replicaRecord(volume, { snapshotId: 'part', sequence: 2n, nextOffset: 4096n });
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  for (const each of [whole, part]) catalogue.putReplica(each);
  catalogue.close();
  return { whole, part };
}

test('a backup has complete replicas alone: what is being pulled is another part when the backup is used', () => {
  const { whole, part } = pulled();
  const catalogue = openCatalogueHere(file);
  const backup = join(directory, 'backup.sqlite');
  catalogue.backUp(backup);
  assert.deepEqual(catalogue.listReplicas(), [whole, part]);
  catalogue.close();
  assert.deepEqual(
    readdirSync(directory).filter((name) => name.startsWith('backup')),
    ['backup.sqlite'],
  );
  const restored = openCatalogueHere(backup);
  assert.deepEqual(restored.listReplicas(), [whole]);
  restored.close();
});

test('who accepts that a catalogue has lost changes has what was being pulled pulled anew', async () => {
  const { whole } = pulled();
  const commits = Number(readFileSync(`${file}-commits`, 'latin1'));
  writeFileSync(`${file}-commits`, `${String(commits + 1).padStart(20, '0')}\n`);
  assert.equal(await acceptLostChanges(file), 1n);
  const catalogue = openCatalogueHere(file);
  assert.deepEqual(catalogue.listReplicas(), [whole]);
  catalogue.close();
});

test('H21: the newest three backups and the newest of each of seven days are retained', () => {
  const two = (number: number): string => String(number).padStart(2, '0');
  const at = (day: number, hour: number): string => `catalogue-202611${two(day)}T${two(hour)}0000000Z.sqlite`;
  const crashes = [1, 2, 3, 4, 5, 6].map((hour) => at(22, hour));
  const days = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19].map((day) => at(day, 3));
  const gone = [...crashes.slice(0, 3), ...days.slice(0, 4)];
  assert.deepEqual(outdated([...crashes, ...days, 'notes.txt']).sort(), gone.sort());
});

test('H21: a backup removes unfinished copies that kills have left, and no other file', async () => {
  fill(1);
  const backups = join(directory, 'backups');
  mkdirSync(backups);
  const killed = 'catalogue-20261122T030000000Z.sqlite.tmp';
  for (const name of [killed, `${killed}-journal`, 'notes.tmp']) {
    writeFileSync(join(backups, name), '');
  }
  const catalogue = await openCatalogue(file);
  const lines: string[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(line) });
  const made = new CatalogueBackups({ catalogue, file, directory: backups, logger });
  made.start();
  await eventually('the backup has ended', () => lines.length > 0);
  assert.match(lines[0] ?? '', /"backed up the catalogue"/);
  await made.stop();
  await catalogue.close();
  const [backup = '', ...others] = readdirSync(backups).sort();
  assert.match(backup, /^catalogue-\d{8}T\d{9}Z\.sqlite$/);
  assert.deepEqual(others, ['notes.tmp']);
});
