import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { truncateSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { deviceSizeBytes } from '../../../src/native/block-device.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

let workspace: Workspace;

before(() => {
  workspace = new Workspace('block-device');
});

after(() => workspace.dispose());

test('the size of a block device is read from the kernel', { skip: skipUnlessRoot }, async () => {
  const file = workspace.path('file');
  writeFileSync(file, '');
  truncateSync(file, 5 << 20);
  const device = execFileSync('losetup', ['-f', '--show', file], { encoding: 'utf8' }).trim();
  assert.equal(await deviceSizeBytes(device), 5n << 20n);
});

test('what is no block device is a SystemError that names the call and the path', async () => {
  const file = workspace.path('plain');
  writeFileSync(file, 'x');
  await assert.rejects(deviceSizeBytes(file), {
    name: 'SystemError',
    code: 'ENOTTY',
    syscall: 'BLKGETSIZE64',
    path: file,
  });
});
