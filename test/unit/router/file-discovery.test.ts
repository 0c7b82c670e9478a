import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createLogger } from '../../../src/base/logger.js';
import { StartError } from '../../../src/plugin/socket-path.js';
import { FileDiscovery } from '../../../src/router/file-discovery.js';
import { eventually } from '../../support/eventually.js';

const listOf = (...ids: string[]): string =>
  JSON.stringify({ nodes: ids.map((id) => ({ id, address: '10.0.0.1:9810' })) });

function discovery(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'blockdelta-nodes-'));
  const path = join(directory, 'nodes.json');
  const lines: string[] = [];
  const logger = createLogger('info', { write: (line) => lines.push(line) });
  const source = new FileDiscovery(path, logger, 20);
  const lists: string[] = [];
  t.after(() => {
    source.stop();
    rmSync(directory, { recursive: true });
  });
  const start = () => source.start((nodes) => lists.push(nodes.map(({ id }) => id).join(' ')));
  return {
    directory,
    path,
    lists,
    start,
    errors: () => lines.filter((line) => line.includes('"error"')),
  };
}

test('a list is read again when its file is replaced', async (t) => {
  const { path, lists, start } = discovery(t);
  writeFileSync(path, listOf('a'));
  await start();
  assert.deepEqual(lists, ['a']);
  writeFileSync(`${path}.new`, listOf('a', 'b'));
  renameSync(`${path}.new`, path);
  await eventually('the new list', () => lists.at(-1) === 'a b');
});

test('a list is followed through symbolic links that are swapped, as in a ConfigMap', async (t) => {
  const { directory, path, lists, start } = discovery(t);
  const version = (name: string, text: string): void => {
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, 'nodes.json'), text);
    symlinkSync(name, join(directory, '..data.new'));
    renameSync(join(directory, '..data.new'), join(directory, '..data'));
  };
  version('1', listOf('a'));
  symlinkSync('..data/nodes.json', path);
  await start();
  version('2', listOf('b'));
  await eventually('the new list', () => lists.at(-1) === 'b');
});

test('a list that cannot be used leaves the last one in force, with one error in the log', async (t) => {
  const { path, lists, start, errors } = discovery(t);
  writeFileSync(path, listOf('a'));
  await start();
  writeFileSync(path, '{"nodes": [');
  await eventually('an error', () => errors().length > 0);
  assert.deepEqual(lists, ['a']);
  writeFileSync(path, listOf('c'));
  await eventually('the corrected list', () => lists.at(-1) === 'c');
  assert.equal(errors().length, 1);
});

test('a start without a list, or with a wrong one, fails and says why', async (t) => {
  const { path, start } = discovery(t);
  await assert.rejects(start(), StartError);
  writeFileSync(path, '');
  await assert.rejects(start(), StartError);
  writeFileSync(path, '[]');
  await assert.rejects(start(), /cannot use the list of nodes .*nodes\.json: .*list "nodes"/);
});
