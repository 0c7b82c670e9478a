/**
 * The kernel replaces the items of a btrfs file in steps, and a scan that looks between two of them finds a hole. A busy machine
 * stops the kernel's thread there for long. Scans call the addon without a plugin in between, some ten thousand a minute.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { chmodSync, closeSync, fsyncSync, openSync, statSync, writeSync } from 'node:fs';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { toSystemError } from '../../../src/base/system/native-result.js';
import { loadAddon } from '../../../src/driver/native/addon.js';
import { Disturbance } from '../../support/disturbance.js';
import { isNightly } from '../../support/nightly.js';
import { type Random, seededRandom } from '../../support/random.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../../support/workspace.js';

const SIZE = 16 << 20;
const BLOCK = 4096;
/** Which take the processor from the kernel's threads. */
const BUSY_PROCESSES = 4;
/** The tool works so often at least, and in a nightly run so long. */
const ROUNDS = 20;
const NIGHTLY_MS = 60_000;
const LIMITS = { maxEntries: 30_000, maxEntriesPerMessage: 30_000, maxExtents: 1 << 20, sendEmpty: true };

const busy: ChildProcess[] = [];
after(() => {
  for (const child of busy) child.kill('SIGKILL');
});

/** A file without holes in many extents, which nobody may write to any more. */
function fullFile(path: string, random: Random): void {
  const file = openSync(path, 'w');
  for (const round of [1, 2]) {
    for (let offset = 0; offset < SIZE; offset += BLOCK) {
      if (round === 2 && random.below(2) === 0) continue;
      writeSync(file, Buffer.alloc(BLOCK, round), 0, BLOCK, offset);
      if (random.below(20) === 0) fsyncSync(file);
    }
  }
  fsyncSync(file);
  closeSync(file);
  chmodSync(path, 0o400);
  execFileSync('chattr', ['+i', path]);
}

test('no list of a full file has a hole while defragmentation replaces its items on a busy machine', {
  skip: skipUnlessRoot,
}, async (context) => {
  const random = seededRandom('replaced-items');
  const workspace = new Workspace('replaced-items');
  context.after(() => workspace.dispose());
  const pool = makePoolFileSystem(workspace, 'btrfs', 1024);
  const path = `${pool}/full`;
  fullFile(path, random);
  const { dev: device, ino: inode, size: sizeBytes } = statSync(path, { bigint: true });
  const source = { kind: 'files', target: { path, device, inode, sizeBytes }, base: null } as const;
  const script = `btrfs filesystem defragment -f -t 256M -s $((RANDOM % 64 * 262144)) -l 1048576 "$1"; sync -f "$1"`;
  const mover = Disturbance.script(script, [path]);
  for (let each = 0; each < BUSY_PROCESSES; each += 1) {
    busy.push(spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }));
  }
  const addon = loadAddon();
  const buffer = new ArrayBuffer(1 << 20);
  const until = isNightly ? Date.now() + NIGHTLY_MS : 0;
  let [scans, repeated] = [0, 0];
  try {
    while (mover.rounds < ROUNDS || Date.now() < until) {
      const answer = addon.fillMetadata({ source, offset: 0n, rangeStart: 0n, ...LIMITS }, buffer);
      if (!answer.ok) throw toSystemError(answer);
      assert.equal(answer.entryBytes, sizeBytes, `scan ${scans}`);
      scans += 1;
      repeated += answer.rescans;
      await turn();
    }
  } finally {
    await mover.stop();
    execFileSync('chattr', ['-i', path]);
  }
  context.diagnostic(`${scans} scans, ${mover.rounds} rounds of the tool, ${repeated} windows scanned again`);
  assert.ok(repeated > 0, 'the tool replaced nothing');
});
