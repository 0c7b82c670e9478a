/** By which path an error names a file that was reached through the descriptor of a pool's directory. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { CsiError, SystemError } from '../../../../src/base/errors.js';
import { OpenDirectories } from '../../../../src/driver/backends/reflink/open-directories.js';
import { PoolLayout } from '../../../../src/driver/backends/reflink/pool-layout.js';
import { nativeHere } from '../../../support/native-here.js';
import { temporaryDirectory } from '../../../support/temporary.js';

const native = nativeHere();
const layout = new PoolLayout(temporaryDirectory());
let opened: OpenDirectories;
before(async () => {
  for (const path of layout.directories) mkdirSync(path);
  writeFileSync(`${layout.volumes}/garbage`, 'x');
  opened = await OpenDirectories.open(native, layout);
});
after(() => opened.close());

const FAILURES: Record<string, { call: () => Promise<unknown>; message: string }> = {
  'a system call of the addon': {
    call: () => native.run('growFile', { path: `${opened.layout.volumes}/none`, sizeBytes: 1n }),
    message: `open ${layout.volumes}/none: No such file or directory`,
  },
  'a refusal of the addon': {
    call: () => native.run('changeListHead', { path: `${opened.layout.volumes}/garbage` }),
    message: `the change list ${layout.volumes}/garbage is not used: it is not a file of whole pages`,
  },
  'a call of Node.js': {
    call: () => native.run('spaceOf', { path: `${opened.layout.snapshots}/none` }),
    message: `ENOENT: no such file or directory, statfs '${layout.snapshots}/none'`,
  },
  'a call with two paths': {
    call: () => native.run('renameFile', { from: `${opened.layout.root}/a`, to: `${opened.layout.root}/b` }),
    message: `ENOENT: no such file or directory, rename '${layout.root}/a'`,
  },
};

for (const [what, { call, message }] of Object.entries(FAILURES)) {
  test(`${what} that fails names the real path`, async () => {
    const thrown = await call().catch((error: unknown) => opened.withRealPath(error));
    assert.ok(thrown instanceof SystemError && thrown.cause instanceof SystemError);
    assert.equal(thrown.message, message);
    assert.ok(message.includes(thrown.path) && thrown.path.startsWith(layout.root));
  });
}

test('errors that name no file of the pool stay as they are', () => {
  const { root } = opened.layout;
  for (const thrown of [
    new SystemError('EIO', 'read', '/dev/loop0', 'read /dev/loop0'),
    new SystemError('EIO', 'read', `${root}0/volumes`, 'the descriptor of another number'),
    CsiError.aborted('busy'),
    new Error(root),
  ]) {
    assert.equal(opened.withRealPath(thrown), thrown);
  }
});
