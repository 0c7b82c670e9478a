/** Opening files where others may have put something else: what is opened, what only the check is told, and what waits for nobody. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  mkdirSync,
  readFileSync,
  type Stats,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  createNew,
  createNewSync,
  flush,
  openChecked,
  openCheckedSync,
  openDirectory,
  openDirectorySync,
} from '../../../src/base/system/checked-files.js';
import { temporaryDirectory } from '../../support/temporary.js';

const { O_RDONLY, O_WRONLY } = constants;
const directory = temporaryDirectory();
const at = (name: string): string => join(directory, name);
writeFileSync(at('file'), 'text');
mkdirSync(at('directory'));
execFileSync('mkfifo', [at('pipe')]);
for (const name of ['file', 'directory']) symlinkSync(at(name), at(`link-to-${name}`));

/** What the check is told, and how the opening ends, by both ways to open. */
async function outcomes(name: string, flags: number): Promise<string[]> {
  const open = [
    async (check: (found: Stats | null) => void) => (await openChecked(at(name), flags, check)).close(),
    (check: (found: Stats | null) => void) => closeSync(openCheckedSync(at(name), flags, check)),
  ];
  const outcome = async (opening: (typeof open)[number]): Promise<string> => {
    let told = 'nothing';
    const check = (found: Stats | null): void => {
      told = found === null ? 'no file' : found.isFile() ? 'a file' : 'another file';
    };
    const end = await Promise.resolve(check)
      .then(opening)
      .then(
        () => 'open',
        (thrown: NodeJS.ErrnoException) => thrown.code ?? thrown.message,
      );
    return `${told}: ${end}`;
  };
  return Promise.all(open.map(outcome));
}

test('a link and a pipe without readers are not opened, and everything else is checked once it is open', async () => {
  for (const [name, flags, expected] of [
    ['file', O_RDONLY, 'a file: open'],
    ['pipe', O_RDONLY, 'another file: open'],
    ['directory', O_RDONLY, 'another file: open'],
    ['link-to-file', O_RDONLY, 'no file: ELOOP'],
    ['pipe', O_WRONLY, 'no file: ENXIO'],
    ['nothing', O_RDONLY, 'nothing: ENOENT'],
  ] as const) {
    assert.deepEqual(await outcomes(name, flags), [expected, expected], name);
  }
});

test('a failed check closes the file', async () => {
  const refuse = (): never => {
    throw new Error('refused');
  };
  const descriptor = openDirectorySync(directory);
  closeSync(descriptor);
  await assert.rejects(openChecked(at('file'), O_RDONLY, refuse), /refused/);
  assert.throws(() => openCheckedSync(at('file'), O_RDONLY, refuse), /refused/);
  assert.equal(openDirectorySync(directory), descriptor, 'the lowest free descriptor');
  closeSync(descriptor);
});

test('a new file is of this user alone, and takes the place of nothing', async () => {
  await (await createNew(at('new'))).close();
  closeSync(createNewSync(at('another')));
  for (const name of ['new', 'another']) assert.equal(statSync(at(name)).mode & 0o777, 0o600);
  for (const name of ['new', 'link-to-file', 'pipe']) {
    await assert.rejects(createNew(at(name)), { code: 'EEXIST' }, name);
    assert.throws(() => createNewSync(at(name)), { code: 'EEXIST' }, name);
  }
  assert.equal(readFileSync(at('file'), 'utf8'), 'text');
});

test('only a directory is opened as one, and no link to it', async () => {
  await (await openDirectory(at('directory'))).close();
  for (const name of ['file', 'pipe', 'link-to-directory']) {
    await assert.rejects(openDirectory(at(name)), { code: 'ENOTDIR' }, name);
    assert.throws(() => openDirectorySync(at(name)), { code: 'ENOTDIR' }, name);
  }
});

test('files and directories are flushed, and a pipe in their place holds up nobody', async () => {
  for (const name of ['file', 'directory']) await flush(at(name));
  await assert.rejects(flush(at('pipe')), { code: 'EINVAL' });
});
