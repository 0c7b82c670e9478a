/** A catalogue read from a copy, beside the process that writes to it. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type TestContext, test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { catalogueContents } from '../../../src/catalogue/contents.js';
import { lockCatalogue } from '../../../src/catalogue/lock.js';
import { openCatalogueHere } from '../../support/direct-database.js';
import { eventually } from '../../support/eventually.js';
import { rejectsWith } from '../../support/expect-status.js';
import { volumeRecord } from '../../support/records.js';

const COPIES = 60;

function temporaryFile(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'blockdelta-contents-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return join(directory, 'catalogue.sqlite');
}

test('copies taken while another process writes are whole and hold all that it has acknowledged', async (t) => {
  const file = temporaryFile(t);
  const script = packagePath('.test-build/test/support/catalogue-process.js');
  const child = spawn(process.execPath, [script, file, 'insert'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  const said: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => said.push(line));
  await eventually('the first insert', () => said.length > 0);
  let volumes = 0;
  for (let round = 0; round < COPIES; round += 1) {
    const acknowledged = [...said];
    const found = await catalogueContents(file);
    const ids = new Set(found.volumes.map(({ volumeId }) => volumeId));
    const taken = new Set(found.snapshots.map(({ snapshotId }) => snapshotId));
    for (const line of acknowledged) {
      const [volumeId = '', snapshotId = ''] = line.split(' ');
      assert.ok(ids.has(volumeId) && taken.has(snapshotId), line);
    }
    volumes = ids.size;
  }
  child.kill('SIGKILL');
  await once(child, 'close');
  assert.ok(volumes > 1 && said.length > COPIES, `${said.length} inserts beside ${COPIES} copies`);
});

test('the original stays as it is, and no copy is left', async (t) => {
  const file = temporaryFile(t);
  const catalogue = openCatalogueHere(file);
  catalogue.registerPool('default', 'uuid-1');
  const volume = volumeRecord();
  catalogue.insertVolume(volume);
  const before = readFileSync(file);
  const left = () => readdirSync(tmpdir()).filter((name) => name.startsWith('blockdelta-copy-'));
  const copiesBefore = left();
  const found = await catalogueContents(file);
  assert.deepEqual(found.pools, [{ name: 'default', uuid: 'uuid-1' }]);
  assert.deepEqual(found.volumes, [volume]);
  assert.deepEqual(readFileSync(file), before);
  assert.deepEqual(
    left().filter((name) => !copiesBefore.includes(name)),
    [],
  );
  catalogue.insertVolume(volumeRecord());
  catalogue.close();
});

test('a missing and a damaged catalogue are named by their own path', async (t) => {
  const file = temporaryFile(t);
  await rejectsWith(catalogueContents(file), 'NOT_FOUND', new RegExp(`no catalogue ${file}`));
  writeFileSync(file, 'no database at all, but long enough to be one'.repeat(40));
  await rejectsWith(catalogueContents(file), 'FAILED_PRECONDITION', new RegExp(file));
});

test('reading a copy keeps the lock that the same process holds on the catalogue', async (t) => {
  const file = temporaryFile(t);
  await openCatalogueHere(file).close();
  const lock = lockCatalogue(file);
  t.after(() => lock.release());
  await catalogueContents(file);
  const take = `new (require('better-sqlite3'))(${JSON.stringify(file)}, { timeout: 0 }).exec('BEGIN EXCLUSIVE')`;
  const { status, stderr } = spawnSync(process.execPath, ['-e', take], {
    cwd: packagePath('.'),
    encoding: 'utf8',
  });
  assert.notEqual(status, 0, 'another process got the lock');
  assert.match(stderr, /database is locked/);
});
