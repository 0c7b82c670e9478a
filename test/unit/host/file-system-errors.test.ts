/** Troubles of a mounted file system, as far as they can be staged without one. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { askFileSystem } from '../../../src/driver/host/file-system-answer.js';
import { fileSystemTroubles } from '../../../src/driver/host/file-system-errors.js';
import { temporaryDirectory } from '../../support/temporary.js';

const NONE = { shutDown: false, silent: false, errors: 0, corruptions: 0 };
let mountId = 0;

function entryOf(mountPoint: string, superOptions: string[] = ['rw'], fsType = 'ext4') {
  mountId += 1;
  return { mountId, mountPoint, fsType, superOptions };
}

test('a directory that opens, of a device without counters, has no troubles', async () => {
  for (const fsType of ['ext4', 'xfs', 'btrfs']) {
    const entry = entryOf(temporaryDirectory(), ['rw'], fsType);
    assert.deepEqual(await fileSystemTroubles(entry, 'no-such-device'), NONE);
  }
});

test('a mount point that is gone meanwhile is not a failure of its file system', async () => {
  assert.deepEqual(await fileSystemTroubles(entryOf('/no/such/path'), 'no-such-device'), NONE);
});

for (const option of ['shutdown', 'emergency_ro']) {
  test(`the mount option ${option} says that a file system has shut down`, async () => {
    const entry = entryOf(temporaryDirectory(), ['rw', option]);
    assert.equal((await fileSystemTroubles(entry, 'no-such-device')).shutDown, true);
  });
}

test('a file system that does not answer is silent, and is asked once until it does', async () => {
  // Opening a pipe to read waits until a writer opens it to write.
  const pipe = join(temporaryDirectory(), 'pipe');
  execFileSync('mkfifo', [pipe]);
  const entry = entryOf(pipe);
  const ask = (answerMs: number) => fileSystemTroubles(entry, 'no-such-device', answerMs);
  // More than there are threads to wait with.
  for (let time = 0; time < 12; time += 1) {
    assert.equal((await ask(5)).silent, true);
    assert.equal(await askFileSystem(entry, 5), null, 'whatever is wanted to be known');
  }
  const late = ask(60_000);
  const writer = await open(pipe, 'w');
  assert.deepEqual(await late, NONE, 'answered in time after all');
  await writer.close();
});
