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

test('a symbolic link is neither mounted on nor removed', async () => {
  const real = workspace.path('precious');
  mkdirSync(real);
  for (const [name, to] of [
    ['link', real],
    ['dangling', workspace.path('nowhere')],
  ] as const) {
    const link = workspace.path(name);
    symlinkSync(to, link);
    await rejectsWith(
      makeTarget(native, link, 'directory'),
      'FAILED_PRECONDITION',
      /symbolic link/,
    );
    await rejectsWith(removeTarget(native, link), 'FAILED_PRECONDITION', /symbolic link/);
    assert.equal(await kernelPath(link), link);
  }
  assert.ok(existsSync(real));
});

test('content is neither hidden by a mount nor removed', async () => {
  const full = workspace.path('full');
  mkdirSync(full);
  writeFileSync(`${full}/data`, 'data');
  const file = workspace.path('data');
  writeFileSync(file, 'data');
  await rejectsWith(makeTarget(native, full, 'directory'), 'FAILED_PRECONDITION', /not empty/);
  await rejectsWith(makeTarget(native, file, 'file'), 'FAILED_PRECONDITION', /not empty/);
  await rejectsWith(removeTarget(native, full), 'FAILED_PRECONDITION', /left as it is/);
  await rejectsWith(removeTarget(native, file), 'FAILED_PRECONDITION', /left as it is/);
  assert.equal(readFileSync(`${full}/data`, 'utf8'), 'data');
  assert.equal(readFileSync(file, 'utf8'), 'data');
});

test('a target of the other type is refused', async () => {
  const path = workspace.path('a-directory');
  mkdirSync(path);
  await rejectsWith(makeTarget(native, path, 'file'), 'FAILED_PRECONDITION', /is not a file/);
});
