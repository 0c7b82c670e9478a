import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { kernelPath, makeTarget, removeTarget } from '../../../src/mount/target.js';
import { rejectsWith } from '../../support/expect-status.js';
import { Workspace } from '../../support/workspace.js';

let workspace: Workspace;
before(() => {
  workspace = new Workspace('target');
});
after(() => workspace.dispose());

test('a directory and a file are made once and removed once', async () => {
  for (const type of ['directory', 'file'] as const) {
    const path = workspace.path(`made-${type}`);
    assert.equal(await makeTarget(path, type), true);
    assert.equal(await makeTarget(path, type), false);
    assert.equal(statSync(path).isDirectory(), type === 'directory');
    await removeTarget(path);
    await removeTarget(path);
    assert.equal(existsSync(path), false);
  }
});

test('a missing parent is named, not made', async () => {
  const path = workspace.path('missing', 'target');
  await rejectsWith(makeTarget(path, 'directory'), 'FAILED_PRECONDITION', /missing does not exist/);
  assert.equal(existsSync(workspace.path('missing')), false);
  await removeTarget(path);
  assert.equal(await kernelPath(workspace.path('missing', 'deeper', 'x')), null);
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
    await rejectsWith(makeTarget(link, 'directory'), 'FAILED_PRECONDITION', /symbolic link/);
    await rejectsWith(removeTarget(link), 'FAILED_PRECONDITION', /symbolic link/);
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
  await rejectsWith(makeTarget(full, 'directory'), 'FAILED_PRECONDITION', /not empty/);
  await rejectsWith(makeTarget(file, 'file'), 'FAILED_PRECONDITION', /not empty/);
  await rejectsWith(removeTarget(full), 'FAILED_PRECONDITION', /left as it is/);
  await rejectsWith(removeTarget(file), 'FAILED_PRECONDITION', /left as it is/);
  assert.equal(readFileSync(`${full}/data`, 'utf8'), 'data');
  assert.equal(readFileSync(file, 'utf8'), 'data');
});

test('a target of the other type is refused', async () => {
  const path = workspace.path('a-directory');
  mkdirSync(path);
  await rejectsWith(makeTarget(path, 'file'), 'FAILED_PRECONDITION', /is no file/);
});
