import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { makeTarget, removeTarget } from '../../../src/host/layers.js';
import { kernelPath } from '../../../src/host/target.js';
import { NativePool } from '../../../src/native/pool.js';
import { rejectsWith } from '../../support/expect-status.js';
import { temporaryDirectory } from '../../support/temporary.js';

const native = new NativePool(1);
after(() => native.close());
const directory = temporaryDirectory();
const at = (name: string): string => join(directory, name);

test('a symbolic link that has come in further up is not followed', async () => {
  const [real, other] = [at('parent'), at('other')];
  for (const path of [real, other]) mkdirSync(path);
  const path = `${real}/target`;
  renameSync(real, `${real}-moved`);
  symlinkSync(other, real);
  const make = makeTarget(native, path, 'directory');
  await rejectsWith(make, 'FAILED_PRECONDITION', /symbolic links/);
  assert.equal(existsSync(`${other}/target`), false);
  mkdirSync(`${other}/target`);
  await rejectsWith(removeTarget(native, path), 'FAILED_PRECONDITION', /symbolic links/);
  assert.ok(existsSync(`${other}/target`));
});

test('a link, content and a target of the other type are neither hidden by a mount nor removed', async () => {
  for (const path of [at('precious'), at('full')]) mkdirSync(path);
  for (const path of [at('full/data'), at('data')]) writeFileSync(path, 'data');
  symlinkSync(at('precious'), at('link'));
  symlinkSync(at('nowhere'), at('dangling'));
  for (const [name, type, why, kept] of [
    ['link', 'directory', /symbolic link/, /symbolic link/],
    ['dangling', 'directory', /symbolic link/, /symbolic link/],
    ['full', 'directory', /not empty/, /left as it is/],
    ['data', 'file', /not empty/, /left as it is/],
    ['precious', 'file', /is not a file/, null],
  ] as const) {
    await rejectsWith(makeTarget(native, at(name), type), 'FAILED_PRECONDITION', why);
    if (kept === null) continue;
    await rejectsWith(removeTarget(native, at(name)), 'FAILED_PRECONDITION', kept);
    assert.equal(await kernelPath(at(name)), at(name));
  }
  assert.ok(existsSync(at('precious')));
  for (const path of [at('full/data'), at('data')])
    assert.equal(readFileSync(path, 'utf8'), 'data');
});
