/**
 * The rooms of src/ and the direction of imports between them, types included: the one place where its walls are
 * written. docs/engineering/architecture.md says what each room is for.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';

/** The rooms of each wing, '' for its own files. A room may import from those behind it in its wing. */
const WINGS: Readonly<Record<string, readonly string[]>> = {
  driver: [
    'plugin',
    'inspection',
    'metrics',
    'legacy',
    'replicas',
    'node',
    'controller',
    'metadata',
    'health',
    'volumes',
    'usage',
    'catalogue',
    'backends',
    'transfer',
    'csi',
    'host',
    'database',
    'native',
    'config',
    '',
  ],
  router: [''],
  tools: ['bench', 'map', 'backup', 'nbd', 'conformance', 'client', ''],
  server: ['', 'metrics', 'connections', 'calls'],
  base: ['listening', 'settings', 'csi', 'process', 'system', ''],
};
/** The other wings that each may import from. */
const IMPORTED_WINGS: Readonly<Record<string, readonly string[]>> = {
  driver: ['server', 'base'],
  router: ['server', 'base'],
  tools: ['base'],
  server: ['base'],
  base: [],
};
/** One file for each command. They know every wing. */
const COMMANDS = ['main', 'cli'];
/** It judges drivers, this one too, and nothing is built on it. */
const ALONE = 'tools/conformance';

const SOURCE = packagePath('src');

const rooms = Object.entries(WINGS).flatMap(([wing, names]) =>
  names.map((name) => (name === '' ? wing : `${wing}/${name}`)),
);

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));

const ANY_IMPORT = /(?:from|import\(?) ?'(\.[^']+)\.js'/g;
/** Of more than types, and not of a thread's module. */
const VALUE_IMPORT = /^(?:import|export)\s(?!type\b)[^'"();]*'(\.[^']+)\.js'/gm;

const textOf = (file: string): string => readFileSync(join(SOURCE, file), 'utf8');

const targetsIn = (text: string, specifiers: RegExp, file: string): string[] =>
  [...text.matchAll(specifiers)].map(([, to = '']) => `${normalize(join(dirname(file), to))}.ts`);

/** The files that each file imports. */
const imports = new Map(files.map((file) => [file, targetsIn(textOf(file), ANY_IMPORT, file)]));

/** As above; the first word of a path that lies in none. */
function roomOf(file: string): string {
  const [wing = '', room = ''] = file.replace(/\.ts$/, '').split('/');
  return [`${wing}/${room}`, wing].find((name) => rooms.includes(name)) ?? wing;
}

/** `commands` for main.ts and cli. */
function wingOf(file: string): string {
  const [wing = ''] = file.replace(/\.ts$/, '').split('/');
  return COMMANDS.includes(wing) ? 'commands' : wing;
}

function mayImport(from: string, to: string): boolean {
  if (from === to || COMMANDS.includes(from)) return true;
  const [wing, other] = [wingOf(from), wingOf(to)];
  if (other !== wing) return IMPORTED_WINGS[wing]?.includes(other) === true;
  return to !== ALONE && rooms.indexOf(to) > rooms.indexOf(from);
}

test('every file of src lies in a room', () => {
  assert.ok(files.length > 100);
  const stray = files.filter((file) => ![...rooms, ...COMMANDS].includes(roomOf(file)));
  assert.deepEqual(stray, []);
});

test('no room imports from a room above it, or from another wing', () => {
  const wrong = [...imports].flatMap(([file, targets]) =>
    targets.filter((target) => !mayImport(roomOf(file), roomOf(target))).map((target) => `${file} imports ${target}`),
  );
  assert.deepEqual(wrong, []);
});

test('no file imports itself by way of others, types included', () => {
  const ended = new Set<string>();
  const visit = (file: string, way: readonly string[]): void => {
    assert.ok(!way.includes(file), [...way, file].join(' imports '));
    if (ended.has(file)) return;
    // Generated types of messages refer to each other.
    if (!file.includes('/generated/')) for (const target of imports.get(file) ?? []) visit(target, [...way, file]);
    ended.add(file);
  };
  for (const file of files) visit(file, []);
});

test('what one wing alone uses is not in base', () => {
  const importersOf = (file: string) => [...imports].filter(([, to]) => to.includes(file));
  const usersOf = (file: string): string[] =>
    importersOf(file).flatMap(([from]) => (wingOf(from) === 'base' ? usersOf(from) : [wingOf(from)]));
  const lonely = files
    .filter((file) => wingOf(file) === 'base' && !file.includes('/generated/'))
    .filter((file) => new Set(usersOf(file)).size < 2);
  assert.deepEqual(lonely, []);
});

test('what the event loop of the plugin loads of driver and server calls nothing that waits for a file', () => {
  const loaded = new Set<string>();
  const load = (file: string): void => {
    if (loaded.has(file)) return;
    loaded.add(file);
    for (const target of targetsIn(textOf(file), VALUE_IMPORT, file)) load(target);
  };
  load('cli/serve.ts');
  const served = [...loaded].filter((file) => ['driver', 'server'].includes(wingOf(file)));
  assert.ok(served.length > 100);
  const waiting = served.flatMap((file) =>
    [...textOf(file).matchAll(/\b(?!closeSync)\w+Sync\(/g)].map(([call]) => `${file}: ${call}`),
  );
  assert.deepEqual(waiting, []);
});

test('no two files of a wing have the same name', () => {
  const written = files.filter((file) => !file.includes('/generated/'));
  const names = written.map((file) => `${wingOf(file)}/${file.split('/').at(-1)}`);
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
});

test('docs/architecture has every room, in its table and in its drawing', () => {
  const table = readFileSync(packagePath('docs/engineering/architecture.md'), 'utf8');
  const source = readFileSync(packagePath('docs/engineering/architecture.dot'), 'utf8');
  const drawing = readFileSync(packagePath('docs/engineering/architecture.svg'), 'utf8');
  for (const room of rooms) {
    assert.match(table, new RegExp(`^\\| .*src/${room}\\b.* \\|`, 'm'), room);
    const name = room.split('/').at(-1) ?? '';
    assert.ok(source.includes(`label="${name}`), room);
    assert.match(drawing, new RegExp(`>${name}\\b`), room);
  }
});

test('the drawing of the wings has their rooms and imports, and no others', () => {
  const source = readFileSync(packagePath('docs/engineering/wings.dot'), 'utf8');
  const drawn = [...source.matchAll(/^ {2}(\w+) \[label="\1(?:\\n(.*))?"\]$/gm)];
  const drawnRooms = drawn
    .filter(([, name]) => name !== 'commands')
    .map(([, name = '', text = '']) => [name, text.split(/,(?:\\n| )/).filter(Boolean)]);
  const wanted = Object.entries(WINGS).map(([wing, names]) => [wing, names.filter(Boolean)]);
  assert.deepEqual(Object.fromEntries(drawnRooms), Object.fromEntries(wanted));

  const found = [...imports].flatMap(([file, targets]) =>
    targets.filter((target) => wingOf(target) !== wingOf(file)).map((target) => `${wingOf(file)} -> ${wingOf(target)}`),
  );
  const arrows = [...source.matchAll(/^ {2}(\w+ -> \w+)$/gm)].map(([, arrow]) => arrow);
  assert.deepEqual(arrows.toSorted(), [...new Set(found)].toSorted());
  const drawing = readFileSync(packagePath('docs/engineering/wings.svg'), 'utf8');
  for (const arrow of arrows)
    assert.ok(drawing.includes(`<title>${arrow?.replace(' -> ', '&#45;&gt;')}</title>`), arrow);
});
