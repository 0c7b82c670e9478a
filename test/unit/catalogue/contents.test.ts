/** A catalogue read from a copy, beside the process that owns it. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { packagePath } from '../../../src/base/package-root.js';
import { catalogueContents } from '../../../src/driver/catalogue/contents.js';
import { lockCatalogue } from '../../../src/driver/catalogue/lock.js';
import { SqliteConnection } from '../../../src/driver/database/connection.js';
import { openCatalogueHere } from '../../support/direct-database.js';
import { eventually } from '../../support/eventually.js';
import { volumeRecord } from '../../support/records.js';
import { refused } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

/** At least, and inserts beside them. */
const COPIES = 60;

const temporaryFile = (): string => join(temporaryDirectory(), 'catalogue.sqlite');

test('copies taken while another process writes are whole and hold all that it has acknowledged', async (t) => {
  const file = temporaryFile();
  const script = packagePath('.test-build/test/support/catalogue-process.js');
  const child = spawn(process.execPath, [script, file], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const said: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => said.push(line));
  await eventually('the first insert', () => said.length > 0);
  for (let round = 0; round < COPIES || said.length <= COPIES; round += 1) {
    // For what the process has said.
    await setImmediate();
    const acknowledged = [...said];
    const found = await catalogueContents(file);
    const ids = new Set(found.volumes.map(({ volumeId }) => volumeId));
    const taken = new Set(found.snapshots.map(({ snapshotId }) => snapshotId));
    for (const line of acknowledged) {
      const [volumeId = '', snapshotId = ''] = line.split(' ');
      assert.ok(ids.has(volumeId) && taken.has(snapshotId), line);
    }
  }
  child.kill('SIGKILL');
  await once(child, 'close');
});

test('the original stays as it is, and no copy is made where a kill could leave it', async () => {
  const file = temporaryFile();
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const before = readFileSync(file);
  const temporary = process.env['TMPDIR'];
  process.env['TMPDIR'] = '/proc/nowhere';
  const found = await catalogueContents(file).finally(() => {
    if (temporary === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = temporary;
  });
  assert.deepEqual(found.pools, [{ name: 'default', uuid: 'uuid-1' }]);
  assert.deepEqual(found.volumes, [volume]);
  assert.deepEqual(readFileSync(file), before);
  catalogue.insertVolume(volumeRecord());
  catalogue.close();
});

test('a copy reads as SQLite reads the file with its log, whatever the log ends with', async () => {
  const file = temporaryFile();
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  for (let count = 0; count < 4; count += 1) catalogue.insertVolume(volumeRecord());
  const [main, log] = [readFileSync(file), readFileSync(`${file}-wal`)];
  await catalogue.close();
  const frameBytes = 24 + log.readUInt32BE(8);
  let last = -1;
  const ends = Array.from({ length: (log.length - 32) / frameBytes }, (_, n) => 32 + (n + 1) * frameBytes);
  // Torn at the end, as by a power failure.
  for (const at of [0, 31, 32, ...ends.flatMap((end) => [end - 1, end])]) {
    const cut = temporaryFile();
    writeFileSync(cut, main);
    writeFileSync(`${cut}-wal`, log.subarray(0, at));
    const copied = await catalogueContents(cut).catch((thrown: Error) => thrown.message);
    const opened = ((): unknown => {
      const sound = new SqliteConnection(cut, 0);
      try {
        return sound.all("SELECT * FROM volumes WHERE state <> 'deleted' ORDER BY volume_id");
      } catch (thrown) {
        return String(thrown);
      } finally {
        sound.close();
      }
    })();
    if (typeof copied === 'string' || typeof opened === 'string') {
      assert.equal(typeof copied, typeof opened, `${at}: ${copied} ${opened}`);
      continue;
    }
    const rows = opened as { volume_id: string }[];
    assert.deepEqual(
      copied.volumes.map(({ volumeId }) => volumeId),
      rows.map((row) => row.volume_id),
    );
    last = rows.length;
  }
  assert.equal(last, 4);
});

test('a missing and a damaged catalogue are named by their own path', async () => {
  const file = temporaryFile();
  await refused(catalogueContents(file), 'NOT_FOUND', new RegExp(`no catalogue ${file}`));
  writeFileSync(file, 'no database at all, but long enough to be one'.repeat(40));
  await refused(catalogueContents(file), 'FAILED_PRECONDITION', new RegExp(file));
});

test('reading a copy keeps the lock that the same process holds on the catalogue', async (t) => {
  const file = temporaryFile();
  openCatalogueHere(file).close();
  const lock = await lockCatalogue(file);
  t.after(() => lock.release());
  await catalogueContents(file);
  const other = packagePath('.test-build/test/support/catalogue-process.js');
  const { status, stderr } = spawnSync(process.execPath, [other, file], { encoding: 'utf8' });
  assert.notEqual(status, 0, 'another process got the lock');
  assert.match(stderr, /is in use by another process/);
});

test('a reader that is stopped in the middle is killed, delays no change, and the log begins anew', async (t) => {
  const file = temporaryFile();
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  const logBytes = (): number => statSync(`${file}-wal`).size;
  const script = packagePath('.test-build/test/support/stopped-reader.js');
  const child = spawn(process.execPath, [script, file, '3000'], { stdio: 'inherit' });
  t.after(() => child.kill('SIGKILL'));
  const ended = once(child, 'exit');
  const status = (): string => readFileSync(`/proc/${child.pid}/status`, 'utf8');
  await eventually('the reader stops', () => /^State:\tT/m.test(status()));
  // More than a checkpoint's worth: none of it can leave the log.
  for (let count = 0; count < 60; count += 1) catalogue.insertVolume(volumeRecord());
  const held = logBytes();
  assert.ok(held > 1 << 19, `${held} bytes`);
  assert.deepEqual(await ended, [null, 'SIGKILL']);
  for (let count = 0; count < 200; count += 1) catalogue.insertVolume(volumeRecord());
  assert.ok(logBytes() < held + (1 << 20), `${held} and then ${logBytes()} bytes`);
  catalogue.close();
  assert.equal((await catalogueContents(file)).volumes.length, 260);
});
