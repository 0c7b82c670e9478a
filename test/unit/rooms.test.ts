/**
 * The rooms of src/ and the direction of imports between them. biome.json has a wall for each room, which
 * an editor shows at once; here each import is resolved, so that a new room cannot be forgotten.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';

/** Each room may import from those behind it. */
const ROOMS = [
  ...['main', 'cli', 'bench', 'map', 'backup', 'nbd', 'client', 'router', 'plugin', 'metrics'],
  ...['legacy', 'node', 'controller', 'metadata', 'health', 'volumes', 'catalogue', 'backends'],
  ...['csi', 'host', 'database', 'native', 'domain', 'config', 'base'],
];
/** It knows the proto, the status codes and nothing else of the plugin; only a command may know it. */
const CONFORMANCE = { name: 'conformance', uses: ['csi/proto', 'csi/service', 'base/'] };

const SOURCE = packagePath('src');

interface Import {
  file: string;
  target: string;
}

function sourceFiles(): string[] {
  const entries = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' });
  return entries.filter((entry) => entry.endsWith('.ts'));
}

function imports(): Import[] {
  return sourceFiles().flatMap((file) => {
    const text = readFileSync(join(SOURCE, file), 'utf8');
    const specifiers = text.matchAll(/(?:from|import\(?) ?'(\.[^']+)\.js'/g);
    return [...specifiers].map(([, specifier = '']) => ({
      file,
      target: `${normalize(join(dirname(file), specifier))}.ts`,
    }));
  });
}

function roomOf(file: string): string {
  return file.includes('/') ? (file.split('/')[0] ?? '') : file.replace(/\.ts$/, '');
}

test('every file of src lies in a room', () => {
  const files = sourceFiles();
  const stray = files.filter((file) => ![...ROOMS, CONFORMANCE.name].includes(roomOf(file)));
  assert.ok(files.length > 100);
  assert.deepEqual(stray, []);
});

test('no room imports from a room above it', () => {
  const upward = imports().filter(({ file, target }) => {
    const [from, to] = [roomOf(file), roomOf(target)];
    if (from === CONFORMANCE.name || to === CONFORMANCE.name) return false;
    return ROOMS.indexOf(to) < ROOMS.indexOf(from);
  });
  assert.deepEqual(upward, []);
});

test('the conformance suite knows the proto alone, and only a command knows the suite', () => {
  const wrong = imports().filter(({ file, target }) => {
    const [from, to] = [roomOf(file), roomOf(target)];
    if (from === to) return false;
    if (from === CONFORMANCE.name) return !CONFORMANCE.uses.some((use) => target.startsWith(use));
    return to === CONFORMANCE.name && from !== 'cli';
  });
  assert.deepEqual(wrong, []);
});

test('biome.json has a wall for every room but the commands', () => {
  const { overrides } = JSON.parse(readFileSync(packagePath('biome.json'), 'utf8')) as {
    overrides: { includes: string[] }[];
  };
  const walled = overrides.flatMap(({ includes }) => includes);
  const rooms = [...ROOMS, CONFORMANCE.name].filter((room) => !['main', 'cli'].includes(room));
  const open = rooms.filter((room) => !walled.includes(`src/${room}/**`));
  assert.deepEqual(open, []);
});

test('docs/architecture has every room, in its table and in its drawing', () => {
  const table = readFileSync(packagePath('docs/architecture.md'), 'utf8');
  const source = readFileSync(packagePath('docs/architecture.dot'), 'utf8');
  const drawing = readFileSync(packagePath('docs/architecture.svg'), 'utf8');
  for (const room of [...ROOMS, CONFORMANCE.name]) {
    assert.match(table, new RegExp(`^\\| .*src/${room}\\b.* \\|`, 'm'), room);
    if (room === 'main') continue;
    assert.ok(source.includes(`label="${room}\\n`), room);
    assert.match(drawing, new RegExp(`>${room}</text>`), room);
  }
});
