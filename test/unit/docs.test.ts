/** Holds the documents against the definitions, codes and lists that they describe. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { StatusCode } from '../../src/base/errors.js';
import { packagePath } from '../../src/base/package-root.js';
import { loadProgram } from '../../src/cli/program.js';
import { mkfsOptionNames, mountOptionNames } from '../../src/driver/host/file-system-options.js';
import { FILE_SYSTEMS } from '../../src/driver/host/file-systems.js';
import { MUTABLE_PARAMETERS } from '../../src/driver/volumes/device-settings.js';
import { knownParameters } from '../../src/driver/volumes/volume-parameters.js';
import { CHECKS } from '../../src/tools/conformance/all-checks.js';
import { containerCapabilities } from '../support/container.js';
import { settingWords } from '../support/service-unit.js';

const read = (path: string): string => readFileSync(packagePath(path), 'utf8');

test('the tables of docs/ that say what definitions say are as scripts/render-docs writes them', () => {
  const { status, stderr } = spawnSync(packagePath('scripts/render-docs'), ['--check'], { encoding: 'utf8' });
  assert.equal(status, 0, stderr);
});

test('docs/parameters.md has a row for every parameter and no other', () => {
  const rows = [...read('docs/parameters.md').matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  const mutable = new Set<string>(MUTABLE_PARAMETERS.map(({ name }) => name));
  const fixed = knownParameters().filter((name) => !mutable.has(name));
  assert.deepEqual(rows, [...fixed, 'copies', ...mutable]);
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

test('docs/engineering/retained-bases.md names a guest test for every condition, and no test that is not there', () => {
  const [, section = ''] = read('docs/engineering/retained-bases.md').split('## Conditions');
  const rows = [...section.matchAll(/^\| (?!id|---)(.*)\|$/gm)];
  assert.ok(rows.length >= 10);
  const tests = read('test/guest/thin-bookmarks.test.ts');
  for (const [row, cells = ''] of rows) {
    const titles = [...(cells.split('|').at(-1) ?? '').matchAll(/"([^"]+)"/g)];
    assert.ok(titles.length > 0, row);
    for (const [, title = ''] of titles) assert.ok(tests.includes(`'${title}'`), title);
  }
});

const pagesIn = (directory: string): string[] =>
  readdirSync(packagePath(directory)).filter((name) => name.endsWith('.md'));

/** Of the headings, as GitHub makes them. */
const anchorsIn = (page: string): Set<string> =>
  new Set(
    [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );

test('every link between the documents leads somewhere', () => {
  const pages = ['docs', 'docs/engineering'].flatMap((each) => pagesIn(each).map((name) => `${each}/${name}`));
  for (const file of ['README.md', ...pages]) {
    for (const [, target = '', anchor] of read(file).matchAll(/\]\(([^):#]*)(?:#([^)]+))?\)/g)) {
      const path = target === '' ? file : join(dirname(file), target);
      assert.ok(existsSync(packagePath(path)), `${file} links to ${target}`);
      if (anchor !== undefined) assert.ok(anchorsIn(path).has(anchor), `${file} links to ${target}#${anchor}`);
    }
  }
});

for (const directory of ['docs', 'docs/engineering']) {
  test(`${directory}/README.md has a row for every page`, () => {
    const rows = [...read(`${directory}/README.md`).matchAll(/^\| \[.*?\]\(([^)#]+)\) \|/gm)];
    const listed = rows.map(([, target = '']) => target).filter((target) => !target.includes('/'));
    assert.deepEqual([...listed, 'README.md'].sort(), pagesIn(directory).sort());
  });
}

/** The pages for users: those that the README leads to, and those that these pages lead users to first. */
const FOR_USERS = [
  ...[
    'kubernetes',
    'velero',
    'backup',
    'backup-commands',
    'nightly-backups',
    'restore',
    'runbook',
    'backup-authors',
    'test-your-driver',
    'measure-your-driver',
  ],
  ...['configuration', 'command-line', 'metrics', 'alerts', 'errors', 'limits', 'upgrade', 'README'],
].map((name) => `docs/${name}.md`);

test('the pages for users have at most 40,000 words, and none has more than 3,500', () => {
  const words = (file: string): number => read(file).split(/\s+/).length;
  const long = FOR_USERS.filter((file) => words(file) > 3500);
  assert.deepEqual(long, []);
  assert.ok(['README.md', ...FOR_USERS].reduce((sum, file) => sum + words(file), 0) <= 40_000);
});

test('the doors of the README lead to pages for users, contributors to theirs', () => {
  const [, doors = ''] = read('README.md').split('## Where to go\n');
  const targets = [...(doors.split('\n## ')[0] ?? '').matchAll(/\]\((docs\/[\w-]+\.md)\)/g)].map(
    ([, target = '']) => target,
  );
  assert.ok(targets.length > 6);
  assert.deepEqual(
    targets.filter((target) => !FOR_USERS.includes(target)),
    [],
  );
});

test('the sentences on the pause of a snapshot and the cost of a delta are the same wherever they stand', () => {
  const pages = ['README.md', ...pagesIn('docs').map((name) => `docs/${name}`)];
  for (const mark of ['pause', 'delta']) {
    const marked = new RegExp(`<!-- ${mark}: begin -->([\\s\\S]*?)<!-- ${mark}: end -->`, 'g');
    const texts = pages.flatMap((page) => [...read(page).matchAll(marked)].map(([, text]) => text));
    assert.ok(texts.length > 2 && texts[0] !== '', mark);
    assert.equal(new Set(texts).size, 1, mark);
  }
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

test('docs/command-line.md shows the commands in the groups of --help', async () => {
  const [start = ''] = read('docs/command-line.md').split('\n## ');
  const blocks = start.matchAll(/^([A-Z].*:)\n\n((?: {4}blockdelta .*\n)+)/gm);
  const shown = [...blocks].flatMap(([, heading, lines = '']) =>
    [...lines.matchAll(/blockdelta ([a-z-]+)/g)].map(([, name]) => `${heading} ${name}`),
  );
  const { commands } = await loadProgram(null);
  const wanted = commands.map((command) => `${command.helpGroup()} ${command.name()}`);
  assert.deepEqual([...new Set(shown)], wanted);
});
