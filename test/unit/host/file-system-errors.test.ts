/** Troubles of a mounted file system, as far as they can be staged without one. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { askFileSystem } from '../../../src/host/file-system-answer.js';
import { fileSystemTroubles } from '../../../src/host/file-system-errors.js';

const NONE = { shutDown: false, silent: false, errors: 0, corruptions: 0 };
let mountId = 0;

function entryOf(mountPoint: string, superOptions: string[] = ['rw'], fsType = 'ext4') {
  mountId += 1;
  return { mountId, mountPoint, fsType, superOptions };
}

function directory(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'blockdelta-troubles-'));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

test('a directory that opens, of a device without counters, has no troubles', async (t) => {
  for (const fsType of ['ext4', 'xfs', 'btrfs']) {
    const entry = entryOf(directory(t), ['rw'], fsType);
    assert.deepEqual(await fileSystemTroubles(entry, 'no-such-device'), NONE);
  }
});

test('a mount point that is gone meanwhile is not a failure of its file system', async () => {
  assert.deepEqual(await fileSystemTroubles(entryOf('/no/such/path'), 'no-such-device'), NONE);
});

for (const option of ['shutdown', 'emergency_ro']) {
  test(`the mount option ${option} says that a file system has shut down`, async (t) => {
    const entry = entryOf(directory(t), ['rw', option]);
    assert.equal((await fileSystemTroubles(entry, 'no-such-device')).shutDown, true);
  });
}

test('a file system that does not answer is silent, and is asked once until it does', async (t) => {
  // Opening a pipe to read waits until a writer opens it to write.
  const pipe = join(directory(t), 'pipe');
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
