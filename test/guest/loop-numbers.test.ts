/**
 * What a loop device's number keeps of its earlier use. In the guest alone: the number belongs to whoever takes it next,
 * and on a machine with other users that is any program, which would find its device read-only.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { loopOn } from '../support/loops.js';
import { nativeHere } from '../support/native-here.js';
import { Workspace } from '../support/workspace.js';
import { test } from './guest.js';

test('a volume is writable on a loop number that others left read-only', async () => {
  const workspace = new Workspace('guest');
  const native = nativeHere();
  try {
    const attach = (name: string) => loopOn(native, workspace.path(name), 1n << 20n);
    const devicePath = await attach('earlier');
    await native.run('setDeviceReadOnly', { devicePath, readOnly: true });
    // The native module would clear it.
    execFileSync('losetup', ['--detach', devicePath]);
    assert.equal(await attach('later'), devicePath, 'it has another number, which proves nothing');
    assert.equal(execFileSync('blockdev', ['--getro', devicePath], { encoding: 'utf8' }), '0\n');
  } finally {
    workspace.dispose();
  }
});
