import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, test } from 'node:test';
import { StatusCode } from '../../../src/base/errors.js';
import { packagePath } from '../../../src/base/package-root.js';
import { openCatalogue } from '../../../src/catalogue/catalogue-client.js';
import { openCatalogueHere } from '../../support/direct-database.js';
import { rejectsWith } from '../../support/expect-status.js';
import { volumeRecord } from '../../support/records.js';

let directory: string;
let file: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'blockdelta-catalogue-'));
  file = join(directory, 'catalogue.db');
});

afterEach(() => rmSync(directory, { recursive: true, force: true }));

function start(action: string): ChildProcess {
  const script = packagePath('.test-build/test/support/catalogue-process.js');
  return spawn(process.execPath, [script, file, action], { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function output(child: ChildProcess): Promise<string> {
  let text = '';
  child.stdout?.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(child, 'close');
  return text.trim();
}

test('a second process is refused while the first has the catalogue open, and succeeds afterwards', async () => {
  const catalogue = await openCatalogue(file);
  await catalogue.registerPool('default', 'uuid-1');
  const refused = await output(start('open'));
  assert.match(refused, new RegExp(`^REFUSED ${StatusCode.FAILED_PRECONDITION} .*another process`));
  assert.equal(await catalogue.registerPool('default', 'uuid-2'), 'uuid-1');
  await catalogue.close();
  assert.equal(await output(start('open')), 'OPEN');
});

test('opening a catalogue that is in use rejects with FAILED_PRECONDITION', async () => {
  const first = await openCatalogue(file);
  await rejectsWith(openCatalogue(file), 'FAILED_PRECONDITION', /another process/);
  await first.close();
  await (await openCatalogue(file)).close();
});

test('everything acknowledged before a SIGKILL is there afterwards, and the file opens at once', async () => {
  for (let round = 0; round < 3; round += 1) {
    const child = start('insert');
    const said: string[] = [];
    const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
    for await (const line of lines) {
      said.push(line);
      if (said.length === 25 + round * 10) break;
    }
    child.kill('SIGKILL');
    await once(child, 'exit');
    const catalogue = openCatalogueHere(file);
    for (const line of said) {
      const [volumeId = '', snapshotId = ''] = line.split(' ');
      assert.equal(catalogue.volumeById(volumeId)?.volumeId, volumeId);
      assert.equal(catalogue.snapshotById(snapshotId)?.volumeId, volumeId);
    }
    catalogue.close();
  }
});

test('the client has every call of the catalogue, and no other', async () => {
  const direct = openCatalogueHere(file);
  const served = Object.keys(direct);
  direct.close();
  const catalogue = await openCatalogue(file);
  assert.deepEqual(Object.keys(catalogue).sort(), served.sort());
  await catalogue.close();
});

test('the client returns the records and failures of the catalogue', async () => {
  const catalogue = await openCatalogue(file);
  await catalogue.registerPool('default', 'uuid-1');
  const volume = volumeRecord();
  await catalogue.insertVolume(volume);
  assert.deepEqual(await catalogue.volumeById(volume.volumeId), volume);
  await rejectsWith(catalogue.insertVolume(volume), 'ALREADY_EXISTS', /is taken/);
  await rejectsWith(catalogue.insertVolume(volumeRecord({ sizeBytes: -1n })), 'INTERNAL');
  await catalogue.close();
});
