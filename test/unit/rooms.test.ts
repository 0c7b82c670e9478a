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

/** The files that each file imports. */
const imports = new Map(
  files.map((file) => {
    const text = readFileSync(join(SOURCE, file), 'utf8');
    const specifiers = text.matchAll(/(?:from|import\(?) ?'(\.[^']+)\.js'/g);
    const targets = [...specifiers].map(
      ([, to = '']) => `${normalize(join(dirname(file), to))}.ts`,
    );
    return [file, targets];
  }),
);

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
