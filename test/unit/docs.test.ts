/** Holds the documents against the settings, options, codes and lists that they describe. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Command } from 'commander';
import { StatusCode } from '../../src/base/errors.js';
import { packagePath } from '../../src/base/package-root.js';
import { addBenchCommand } from '../../src/cli/bench.js';
import { addMapCommand } from '../../src/cli/map.js';
import { addAllocatedCommand, addDeltaCommand } from '../../src/cli/metadata/commands.js';
import { addNbdCommand } from '../../src/cli/nbd.js';
import { loadProgram } from '../../src/cli/program.js';
import { addThinDeltaCommand } from '../../src/cli/thin/delta-command.js';
import { addThinLsCommand } from '../../src/cli/thin/ls-command.js';
import { SETTINGS } from '../../src/driver/config/config.js';
import { mkfsOptionNames, mountOptionNames } from '../../src/driver/host/file-system-options.js';
import { FILE_SYSTEMS } from '../../src/driver/host/file-systems.js';
import { MUTABLE_PARAMETERS } from '../../src/driver/volumes/device-settings.js';
import { VOLUME_PARAMETERS } from '../../src/driver/volumes/volume-parameters.js';
import { CHECKS } from '../../src/tools/conformance/suite.js';
import { containerCapabilities } from '../support/container.js';
import { settingWords } from '../support/service-unit.js';

const read = (path: string): string => readFileSync(packagePath(path), 'utf8');

test('docs/configuration.md has a row for every setting and no other', () => {
  const rows = [...read('docs/configuration.md').matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, name]) => name);
  assert.deepEqual(rows.sort(), Object.keys(SETTINGS).sort());
});

/** The cells of the table rows below a heading whose first cell is code, by that cell. */
function tableBelow(text: string, heading: RegExp): Map<string, string[]> {
  const [, section = ''] = text.split(heading);
  const rows = [...(section.split('\n## ')[0] ?? '').matchAll(/^\| `(\w+)` \|(.*)\|$/gm)];
  return new Map(rows.map(([, name = '', cells = '']) => [name, cells.split('|').map((cell) => cell.trim())]));
}

test('docs/parameters.md has a row for every parameter of a StorageClass and no other', () => {
  const rows = tableBelow(read('docs/parameters.md'), /^## StorageClass.*$/m);
  assert.deepEqual([...rows.keys()], [...VOLUME_PARAMETERS]);
  for (const [name, cells] of rows)
    assert.ok(
      cells.every((cell) => cell !== ''),
      name,
    );
});

test('docs/parameters.md has every mutable parameter with its type, default and range', () => {
  const rows = tableBelow(read('docs/parameters.md'), /^## Mutable.*$/m);
  const wanted = MUTABLE_PARAMETERS.map((parameter): [string, string[]] => [
    parameter.name,
    [parameter.type, parameter.default, parameter.range, 'INVALID_ARGUMENT'],
  ]);
  assert.deepEqual([...rows], wanted);
});

test('docs/errors.md explains every status code a client can get from a handler', () => {
  const text = read('docs/errors.md');
  const unexplained = ['OK', 'UNKNOWN', 'CANCELLED', 'DEADLINE_EXCEEDED', 'UNAUTHENTICATED'];
  for (const name of Object.keys(StatusCode)) {
    if (unexplained.includes(name) || name === 'PERMISSION_DENIED') continue;
    assert.match(text, new RegExp(`\\| ${name} \\||## ${name}`), name);
  }
});

test('docs/file-system-options.md lists every option that is served', () => {
  const [mkfs = '', mount = ''] = read('docs/file-system-options.md').split('\n## mount\n');
  for (const type of FILE_SYSTEMS) {
    const rows = new RegExp(`^\\| ${type} \\|.*\\n(\\| \\|.*\\n)*`, 'm').exec(mkfs)?.[0] ?? '';
    for (const name of mkfsOptionNames(type)) assert.match(rows, new RegExp(`\`${name}\``));
    const lines = [...mount.matchAll(/^- (\w+):([\s\S]*?)(?=^- |\n\n)/gm)];
    const words = lines
      .filter(([, whose]) => whose === type || whose === 'All')
      .flatMap(([, , text]) => (text ?? '').split(/\s+/).map((word) => word.split('=')[0]));
    assert.deepEqual([...new Set(words)].filter(Boolean).sort(), mountOptionNames(type).sort());
  }
});

test('E13 and E14: docs/limits.md names capabilities, devices, programs, memory and threads', () => {
  const text = read('docs/limits.md');
  const named = ['CAP_SYS_ADMIN', 'CAP_LINUX_IMMUTABLE', 'CAP_SYS_RESOURCE', '/dev/loop-control'];
  for (const word of [...named, 'Programs:', 'MiB of memory', 'threads']) {
    assert.ok(text.includes(word), word);
  }
});

test('E19: the documents describe secrets, the topology key and the cost of Probe', () => {
  const configuration = read('docs/configuration.md');
  assert.match(configuration, /## Secrets\n\nThe plugin needs none/);
  assert.match(configuration, /BLOCKDELTA_TOPOLOGY_KEY/);
  assert.match(read('docs/limits.md'), /Probe .* cheap/);
});

test('docs/retained-bases.md names a guest test for every condition, and no test that is not there', () => {
  const [, section = ''] = read('docs/retained-bases.md').split('## Conditions');
  const rows = [...section.matchAll(/^\| (?!id|---)(.*)\|$/gm)];
  assert.ok(rows.length >= 10);
  const tests = read('test/guest/thin-bookmarks.test.ts');
  for (const [row, cells = ''] of rows) {
    const titles = [...(cells.split('|').at(-1) ?? '').matchAll(/"([^"]+)"/g)];
    assert.ok(titles.length > 0, row);
    for (const [, title = ''] of titles) assert.ok(tests.includes(`'${title}'`), title);
  }
});

test('every link between the documents leads somewhere', () => {
  const pages = readdirSync(packagePath('docs')).filter((name) => name.endsWith('.md'));
  for (const file of ['README.md', ...pages.map((name) => `docs/${name}`)]) {
    for (const [, target] of read(file).matchAll(/\]\(([^):#]+)\)/g)) {
      const path = join(dirname(file), target ?? '');
      assert.doesNotThrow(() => read(path), `${file} links to ${target}`);
    }
  }
});

test('docs/README.md has a row for every page', () => {
  const rows = [...read('docs/README.md').matchAll(/^\| \[.*?\]\(([^)#]+)\) \|/gm)];
  const pages = readdirSync(packagePath('docs')).filter((name) => name.endsWith('.md'));
  const listed = rows.map(([, target = '']) => target).filter((target) => !target.startsWith('..'));
  assert.deepEqual([...listed, 'README.md'].sort(), pages.sort());
});

test('docs/conformance-tool.md has a row for every check, in order, as --list prints it', () => {
  const rows = [...read('docs/conformance-tool.md').matchAll(/^\| `([a-z.-]+)` \| (.*) \| (.*) \|$/gm)]
    .filter(([, id = '']) => id.includes('.'))
    .map(([, id, section, title]) => ({ id, section, title }));
  const wanted = CHECKS.map(({ id, section, title, level }) => ({
    id,
    section,
    title: level === 'should' ? `${title} (should)` : title,
  }));
  assert.deepEqual(rows, wanted);
});

test('ids of checks are unique', () => {
  assert.equal(new Set(CHECKS.map(({ id }) => id)).size, CHECKS.length);
});

/** The capabilities in the first cells of the table. */
function documentedCapabilities(): string[] {
  const [, section = ''] = read('docs/security.md').split('## Capabilities\n');
  const rows = [...section.matchAll(/^\| (CAP_.*?) \|/gm)];
  return rows.flatMap(([, cell = '']) => cell.split(', ')).sort();
}

test('the unit and deploy/container/run give the capabilities of docs/security.md and no others', () => {
  assert.deepEqual(settingWords('CapabilityBoundingSet').sort(), documentedCapabilities());
  assert.deepEqual(containerCapabilities().sort(), documentedCapabilities());
});

/** What stands below that heading, or above the first one. */
function section(title: string | null): string {
  const sections = read('docs/command-line.md').split('\n## ');
  return sections.find((each, index) => (title === null ? index === 0 : each.startsWith(`${title}\n`))) ?? '';
}

/** Option names in the first column of the table. */
function documented(text: string): Set<string> {
  const rows = [...text.matchAll(/^\| (.*?) \|.*$/gm)].map(([row]) => row);
  return new Set(rows.flatMap((row) => row.match(/(?<=`)--[a-z0-9-]+(?=`)/g) ?? []));
}

function optionsOf(...add: readonly ((program: Command) => void)[]): Set<string> {
  const program = new Command();
  for (const each of add) each(program);
  return new Set(program.commands.flatMap(({ options }) => options.map(({ long }) => long ?? '')));
}

const COMMANDS = [
  [section(null), addAllocatedCommand, addDeltaCommand],
  [section('thin-delta and thin-ls'), addThinDeltaCommand, addThinLsCommand],
  [section('bench'), addBenchCommand],
  [section('nbd'), addNbdCommand],
  [read('docs/map.md'), addMapCommand],
] as const;

test('the documents have every option of the commands, aliases included, and no other', () => {
  for (const [text, ...add] of COMMANDS) {
    assert.deepEqual([...documented(text)].sort(), [...optionsOf(...add)].sort());
  }
});

test('docs/command-line.md shows the commands in the groups of --help', async () => {
  const blocks = section(null).matchAll(/^([A-Z].*:)\n\n((?: {4}blockdelta .*\n)+)/gm);
  const shown = [...blocks].flatMap(([, heading, lines = '']) =>
    [...lines.matchAll(/blockdelta ([a-z-]+)/g)].map(([, name]) => `${heading} ${name}`),
  );
  const { commands } = await loadProgram(null);
  const wanted = commands.map((command) => `${command.helpGroup()} ${command.name()}`);
  assert.deepEqual([...new Set(shown)], wanted);
});
