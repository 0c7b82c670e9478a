/** What is done to files with node:fs on a thread of a pool: what each call answers, and how failures arrive. */
import assert from 'node:assert/strict';
import { readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SystemError } from '../../../src/base/errors.js';
import { entriesIn, namesIn } from '../../../src/driver/backends/directory-files.js';
import { NativePool } from '../../../src/driver/native/pool.js';
import { temporaryDirectory } from '../../support/temporary.js';

const pool = new NativePool(1);
after(() => pool.close());
const directory = join(temporaryDirectory(), 'made', 'here');
const path = join(directory, 'file');

test('files are made, found, renamed, linked and removed, also again', async () => {
  for (const _ of ['made', 'there']) await pool.run('makeDirectory', { path: directory });
  for (const text of ['text\n', '']) {
    await pool.run('writeText', { path, text });
    assert.equal(readFileSync(path, 'utf8'), text);
    assert.equal((await pool.run('readText', { path })).text, text.trim());
  }
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const { entry } = await pool.run('entryOf', { path });
  const { dev: device, ino: inode, ctimeNs } = statSync(path, { bigint: true });
  assert.deepEqual(entry, { kind: 'file', device, inode, sizeBytes: 0n, changedNs: ctimeNs });
  const other = join(directory, 'other');
  await pool.run('renameFile', { from: path, to: other });
  await pool.run('linkFile', { from: other, to: path });
  assert.deepEqual((await namesIn(pool, directory)).sort(), ['file', 'other']);
  for (const _ of ['there', 'gone']) await pool.run('unlinkFile', { path });
  assert.equal((await pool.run('entryOf', { path })).entry, null);
  for (const [name, kind] of [
    ['.', 'directory'],
    ['link', 'other'],
  ] as const) {
    if (kind === 'other') symlinkSync(directory, join(directory, name));
    assert.equal((await pool.run('entryOf', { path: join(directory, name) })).entry?.kind, kind);
  }
  const entries = await entriesIn(pool, directory);
  const namesOf = (isFile: boolean) => entries.filter(({ regular }) => regular === isFile).map(({ name }) => name);
  assert.deepEqual([namesOf(true), namesOf(false)], [['other'], ['link']]);
  const { totalBytes, freeBytes } = await pool.run('spaceOf', { path: directory });
  assert.ok(freeBytes > 0n && freeBytes < totalBytes);
});

test('what is not there is null where that is an answer; other failures name call and path', async () => {
  await pool.run('makeDirectory', { path: directory });
  const nowhere = join(directory, 'nowhere', 'file');
  assert.equal((await pool.run('readText', { path: nowhere })).text, null);
  assert.equal((await pool.run('entryOf', { path: nowhere })).entry, null);
  const failed = async (call: Promise<unknown>, code: string, syscall: string): Promise<void> => {
    const thrown = await call.catch((error: unknown) => error);
    assert.ok(thrown instanceof SystemError);
    assert.deepEqual([thrown.code, thrown.syscall], [code, syscall]);
    assert.ok(thrown.path !== '' && thrown.message.includes(thrown.path));
  };
  await failed(namesIn(pool, nowhere), 'ENOENT', 'opendir');
  await failed(pool.run('spaceOf', { path: nowhere }), 'ENOENT', 'statfs');
  await failed(pool.run('writeText', { path: nowhere, text: '' }), 'ENOENT', 'open');
  await failed(pool.run('unlinkFile', { path: directory }), 'EISDIR', 'unlink');
  const other = join(directory, 'another');
  await pool.run('writeText', { path: other, text: '' });
  await failed(pool.run('linkFile', { from: other, to: other }), 'EEXIST', 'link');
});
