import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { after, before, test } from 'node:test';
import { makeTarget, removeTarget } from '../../../src/host/layers.js';
import { kernelPath } from '../../../src/host/target.js';
import { NativePool } from '../../../src/native/pool.js';
import { rejectsWith } from '../../support/expect-status.js';
import { Workspace } from '../../support/workspace.js';

let workspace: Workspace;
const native = new NativePool(1);
before(() => {
  workspace = new Workspace('target');
});
after(async () => {
  await native.close();
  workspace.dispose();
});

test('a directory and a file are made once and removed once', async () => {
  for (const type of ['directory', 'file'] as const) {
    const path = workspace.path(`made-${type}`);
    await makeTarget(native, path, type);
    await makeTarget(native, path, type);
    assert.equal(statSync(path).isDirectory(), type === 'directory');
    await removeTarget(native, path);
    await removeTarget(native, path);
    assert.equal(existsSync(path), false);
  }
});

test('a missing parent is named, not made', async () => {
  const path = workspace.path('missing', 'target');
  await rejectsWith(
    makeTarget(native, path, 'directory'),
    'FAILED_PRECONDITION',
    /missing.target cannot be made/,
  );
  assert.equal(existsSync(workspace.path('missing')), false);
  await removeTarget(native, path);
  assert.equal(await kernelPath(workspace.path('missing', 'deeper', 'x')), null);
});

test('a symbolic link that has come in further up is not followed', async () => {
  const [real, other] = [workspace.path('parent'), workspace.path('other')];
  for (const directory of [real, other]) mkdirSync(directory);
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
  const at = (name: string) => workspace.path(name);
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
