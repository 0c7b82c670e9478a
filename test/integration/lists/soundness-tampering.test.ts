/**
 * Snapshot files that another process has modified: no list is returned from them where it
 * could be wrong, and the error says why.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, renameSync, rmSync, truncateSync, unlinkSync } from 'node:fs';
import { afterEach, beforeEach } from 'node:test';
import { setImmutable } from '../../support/ioctls.js';
import { assertWellFormed } from '../../support/metadata-check.js';
import { useBench, type Writing } from '../../support/reflink-bench.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { skipUnlessRoot } from '../../support/workspace.js';
import { writeAt } from '../../support/write-at.js';

const MIB = 1 << 20;
const SIZE = 8 * MIB;

const bench = useBench('tampering', ['xfs', 'btrfs']);
let work: Writing;
let base: string;
let target: string;

async function prepare(kind: 'xfs' | 'btrfs'): Promise<void> {
  work = await bench.write(kind, SIZE);
  work.writer.write(0, bench.random.bytes(4 * MIB));
  base = await bench.snapshot(work);
  // Zeros in the target where the base has data: what a base cut short would hide.
  work.writer.apply('punch', 2 * MIB, MIB);
  work.writer.write(0, bench.random.bytes(65_536));
  target = await bench.snapshot(work);
}

beforeEach(async () => {
  if (skipUnlessRoot === false) await prepare('xfs');
});

async function end(): Promise<void> {
  for (const snapshot of [base, target]) await bench.orchestrator.deleteSnapshot(snapshot);
  await bench.end(work);
}

afterEach(async () => {
  if (skipUnlessRoot === false) await end();
});

const fileOf = (snapshot: string): string => bench.snapshotPath(work.kind, snapshot);

/** Does something to a snapshot file that its immutable flag forbids, and sets the flag again. */
function tamper(snapshot: string, change: (path: string) => void): void {
  const path = fileOf(snapshot);
  setImmutable(path, false);
  change(path);
  if (existsSync(path)) setImmutable(path, true);
}

const delta = (): Promise<unknown> => bench.client.delta(base, target);
const allocated = (snapshot: string): Promise<unknown> => bench.client.allocated(snapshot);

test('a snapshot file is immutable and read-only from the moment it is ready', () => {
  for (const snapshot of [base, target]) {
    const flags = execFileSync('lsattr', [fileOf(snapshot)], { encoding: 'utf8' });
    assert.match(flags.split(' ')[0] ?? '', /i/);
    assert.throws(() => truncateSync(fileOf(snapshot), 0), { code: 'EPERM' });
    assert.throws(() => unlinkSync(fileOf(snapshot)), { code: 'EPERM' });
  }
});

for (const kind of ['xfs', 'btrfs'] as const) {
  test(`SM9: a snapshot on ${kind} that was made mutable gives no delta, as target or as base, until it is immutable again`, async () => {
    if (kind !== work.kind) {
      await end();
      await prepare(kind);
    }
    for (const snapshot of [base, target]) {
      setImmutable(fileOf(snapshot), false);
      await refused(delta(), 'FAILED_PRECONDITION', /immutable/);
      setImmutable(fileOf(snapshot), true);
      await bench.soundDelta(kind, base, target);
    }
  });
}

const resized = (bytes: number) => (path: string) => truncateSync(path, bytes);
const written = (path: string): void => writeAt(path, 65_536, Buffer.alloc(4096, 0xee));
const CHANGED = /changed after it was taken/;

for (const [what, change, said] of [
  ['base that was truncated', resized(2 * MIB), /should have/],
  ['target that was truncated', resized(SIZE - 4096), /should have/],
  ['target that was grown', resized(SIZE + 4096), /should have/],
  ['target that was written to, even if it is immutable again,', written, CHANGED],
  ['base that was written to, even if it is immutable again,', written, CHANGED],
  ['base that is missing in the pool', rmSync, /lost/],
] as const) {
  test(`a ${what} gives no list, and can be deleted`, async () => {
    const snapshot = what.startsWith('base') ? base : target;
    tamper(snapshot, change);
    await refused(delta(), 'FAILED_PRECONDITION', said);
    await refused(allocated(snapshot), 'FAILED_PRECONDITION', said);
  });
}

test('a snapshot file that was replaced by a copy gives no delta', async () => {
  const path = fileOf(base);
  copyFileSync(path, `${path}-copy`);
  setImmutable(path, false);
  renameSync(`${path}-copy`, path);
  await refused(delta(), 'FAILED_PRECONDITION', /immutable/);
});

test('space preallocated beyond the end of a snapshot is not in its lists', async () => {
  for (const snapshot of [base, target]) {
    // Such space may come with a file that is restored with its times; else the seal shows it.
    tamper(snapshot, (path) => {
      execFileSync('touch', ['-r', path, `${path}-times`]);
      execFileSync('fallocate', ['--keep-size', '-o', `${SIZE}`, '-l', `${MIB}`, path]);
      execFileSync('touch', ['-r', `${path}-times`, path]);
      rmSync(`${path}-times`);
    });
  }
  assertWellFormed(await bench.client.allocated(target), SIZE);
  await bench.soundDelta('xfs', base, target);
});
