/**
 * The rooms of src/ and the direction of imports between them, types included: the one place where its walls are
 * written. docs/architecture.md says what each room is for.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';

/** The rooms of each wing. A room may import from those behind it in its wing, and from the wing base. */
const WINGS: Readonly<Record<string, readonly string[]>> = {
  driver: [
    ...['plugin', 'inspection', 'metrics', 'legacy', 'node', 'controller', 'metadata', 'health'],
    ...['volumes', 'usage', 'catalogue', 'backends', 'csi', 'host', 'database', 'native', 'config'],
  ],
  router: [''],
  tools: ['bench', 'map', 'backup', 'nbd', 'conformance', 'client'],
  base: ['listening', 'settings', 'csi', 'process', 'system', ''],
};
/** One file for each command. They know every wing. */
const COMMANDS = ['main', 'cli'];
/** It judges drivers, this one too, and nothing is built on it. */
const ALONE = 'tools/conformance';

const SOURCE = packagePath('src');

const rooms = Object.entries(WINGS).flatMap(([wing, names]) =>
  names.map((name) => (name === '' ? wing : `${wing}/${name}`)),
);

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.ts'),
);

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

function mayImport(from: string, to: string): boolean {
  if (from === to || COMMANDS.includes(from)) return true;
  const isInWing = from.split('/')[0] === to.split('/')[0];
  if (!isInWing) return to.startsWith('base');
  return to !== ALONE && rooms.indexOf(to) > rooms.indexOf(from);
}

test('every file of src lies in a room', () => {
  assert.ok(files.length > 100);
  const stray = files.filter((file) => ![...rooms, ...COMMANDS].includes(roomOf(file)));
  assert.deepEqual(stray, []);
});

test('no room imports from a room above it, or from another wing', () => {
  const wrong = [...imports].flatMap(([file, targets]) =>
    targets
      .filter((target) => !mayImport(roomOf(file), roomOf(target)))
      .map((target) => `${file} imports ${target}`),
  );
  assert.deepEqual(wrong, []);
});

test('no file imports itself by way of others, types included', () => {
  const ended = new Set<string>();
  const visit = (file: string, way: readonly string[]): void => {
    assert.ok(!way.includes(file), [...way, file].join(' imports '));
    if (ended.has(file)) return;
    // Generated types of messages refer to each other.
    if (!file.includes('/generated/'))
      for (const target of imports.get(file) ?? []) visit(target, [...way, file]);
    ended.add(file);
  };
  for (const file of files) visit(file, []);
});

test('what the event loop of the plugin loads of the driver calls nothing that waits for a file', () => {
  const loaded = new Set<string>();
  const load = (file: string): void => {
    if (loaded.has(file)) return;
    loaded.add(file);
    for (const target of targetsIn(textOf(file), VALUE_IMPORT, file)) load(target);
  };
  load('cli/serve.ts');
  const inDriver = [...loaded].filter((file) => file.startsWith('driver/'));
  assert.ok(inDriver.length > 100);
  const waiting = inDriver.flatMap((file) =>
    [...textOf(file).matchAll(/\b(?!closeSync)\w+Sync\(/g)].map(([call]) => `${file}: ${call}`),
  );
  assert.deepEqual(waiting, []);
});

test('docs/architecture has every room, in its table and in its drawing', () => {
  const table = readFileSync(packagePath('docs/architecture.md'), 'utf8');
  const source = readFileSync(packagePath('docs/architecture.dot'), 'utf8');
  const drawing = readFileSync(packagePath('docs/architecture.svg'), 'utf8');
  for (const room of rooms) {
    assert.match(table, new RegExp(`^\\| .*src/${room}\\b.* \\|`, 'm'), room);
    const name = room.split('/').at(-1) ?? '';
    assert.ok(source.includes(`label="${name}\\n`), room);
    assert.match(drawing, new RegExp(`>${name}</text>`), room);
  }
});
