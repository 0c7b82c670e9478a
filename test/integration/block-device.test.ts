import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, test } from 'node:test';
import { SystemError } from '../../src/base/errors.js';
import { deviceSizeBytes } from '../../src/native/block-device.js';
import { skipUnlessRoot, Workspace } from '../support/workspace.js';

const workspace = new Workspace('block-device');
after(() => workspace.dispose());

test('the size of a block device is what the kernel says', { skip: skipUnlessRoot }, async () => {
  const file = workspace.path('disk.img');
  execFileSync('truncate', ['-s', String(5 * 2 ** 30 + 4096), file]);
  const device = execFileSync('losetup', ['-f', '--show', file]).toString().trim();
  assert.equal(await deviceSizeBytes(device), 5n * 2n ** 30n + 4096n);
});

test('a file that is not a block device is a SystemError with its errno', async () => {
  await assert.rejects(deviceSizeBytes('/dev/null'), (error: unknown) => {
    assert.ok(error instanceof SystemError);
    assert.equal(error.code, 'ENOTTY');
    return true;
  });
});
