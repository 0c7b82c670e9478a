/**
 * One test for each known cause of wrong changed-block lists on reflinked files, or of unsound volumes.
 * Random tests do not find most of them.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SnapshotFile } from '../../../src/driver/native/snapshot-file.js';
import type { BlockWriter } from '../../support/block-writer.js';
import { addresses, countWith, listExtents } from '../../support/extent-list.js';
import { setImmutable } from '../../support/ioctls.js';
import { nativeHere } from '../../support/native-here.js';
import { useBench } from '../../support/reflink-bench.js';
import { refused } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { scanAll } from '../../support/wire.js';
import type { PoolKind } from '../../support/workspace.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const KINDS: readonly PoolKind[] = ['xfs', 'xfs-1k', 'btrfs', 'btrfs-zstd', 'btrfs-nodatacow'];

const bench = useBench('regressions', KINDS);

/** Counts blocks with the same address in both files and different bytes. */
function countDeceptive(basePath: string, targetPath: string): number {
  const before = addresses(basePath);
  const [old, young] = [readFileSync(basePath), readFileSync(targetPath)];
  let count = 0;
  for (const [block, address] of addresses(targetPath)) {
    if (before.get(block) !== address) continue;
    const end = (block + 1) * BLOCK;
    if (old.compare(young, block * BLOCK, end, block * BLOCK, end) !== 0) count += 1;
  }
  return count;
}

test('overwrites inside compressed extents are reported although their addresses look unchanged', async (context) => {
  const work = await bench.write('btrfs-zstd');
  const fileOf = (id: string): string => bench.snapshotPath('btrfs-zstd', id);
  let deceptive = 0;
  for (let offset = 0; offset < 2 * MIB; offset += 131_072) {
    // On disk this takes one block, and the overwrite the next one: its address looks like the
    // second block of the compressed extent.
    work.writer.write(offset, Buffer.alloc(131_072, 'compressible '));
    const base = await bench.snapshot(work);
    assert.ok(countWith(listExtents(fileOf(base)), 'encoded') > 0, 'nothing was compressed');
    work.writer.write(offset + BLOCK, Buffer.alloc(2 * BLOCK, `other ${offset} `));
    const target = await bench.snapshot(work);
    deceptive += countDeceptive(fileOf(base), fileOf(target));
    const tally = await bench.soundDelta('btrfs-zstd', base, target);
    assert.equal(tally.differing, 16);
  }
  context.diagnostic(`${deceptive} blocks with the same address and other bytes`);
  assert.ok(deceptive > 0, 'no block has the same address and other bytes, so nothing was tested');
  await bench.end(work);
});

test('no list is served from a deleted base that was not retained, although it was served before', async () => {
  for (const kind of ['xfs', 'btrfs-nodatacow'] as const) {
    const work = await bench.write(kind);
    work.writer.write(0, Buffer.alloc(MIB, 1));
    const base = await bench.snapshot(work);
    const newer = await bench.snapshot(work);
    assert.deepEqual((await bench.client.delta(base, newer)).ranges, []);
    await bench.orchestrator.deleteSnapshot(base);
    await bench.orchestrator.deleteSnapshot(newer);
    // Nothing shares these blocks now, so the write reuses the addresses of the base.
    work.writer.write(0, Buffer.alloc(MIB, 2));
    const target = await bench.snapshot(work);
    const delta = bench.client.delta(base, target);
    await refused(delta, 'NOT_FOUND', /lists are off.*full backup/);
    await refused(bench.client.allocated(base), 'NOT_FOUND');
    await bench.end(work);
  }
});

for (const { over, kinds, prepare } of [
  { over: 'shared', kinds: KINDS, prepare: (writer: BlockWriter) => writer.write(0, bench.random.bytes(4 * MIB)) },
  {
    over: 'preallocated',
    kinds: ['xfs', 'btrfs'] as const,
    prepare: (writer: BlockWriter) => writer.apply('zero-out', 0, 4 * MIB),
  },
]) {
  test(`CS7: unsynced writes over ${over} blocks are in the snapshot and in the delta`, async () => {
    for (const kind of kinds) {
      const work = await bench.write(kind);
      prepare(work.writer);
      const base = await bench.snapshot(work);
      await bench.soundSnapshot(kind, base, work.writer.model);
      work.writer.write(MIB, bench.random.bytes(65_536));
      const target = await bench.snapshot(work);
      await bench.soundSnapshot(kind, target, work.writer.model);
      assert.ok((await bench.soundDelta(kind, base, target)).differing >= 128);
      await bench.end(work);
    }
  });
}

test('changes smaller than 4 KiB are reported at the block size of the pool', async () => {
  const work = await bench.write('xfs-1k');
  work.writer.write(0, bench.random.bytes(8 * MIB));
  const base = await bench.snapshot(work);
  for (let offset = 3072; offset < 8 * MIB; offset += 65_536) {
    work.writer.write(offset, bench.random.bytes(1024));
  }
  const target = await bench.snapshot(work);
  const tally = await bench.soundDelta('xfs-1k', base, target);
  assert.equal(tally.differing, 128 * 2);
  await bench.end(work);
});

test('two small btrfs files with inline extents at the same address are not considered equal', async () => {
  const place = join(bench.pool('btrfs'), 'inline');
  mkdirSync(place);
  const describe = (name: string, byte: number): SnapshotFile => {
    const path = join(place, name);
    writeFileSync(path, Buffer.alloc(100, byte));
    execFileSync('sync', ['-f', path]);
    setImmutable(path, true);
    const { dev, ino } = statSync(path, { bigint: true });
    return { path, device: dev, inode: ino, sizeBytes: 100n };
  };
  const [base, target] = [describe('base', 1), describe('target', 2)];
  const { ranges } = await scanAll(nativeHere(), { kind: 'files', base, target });
  const flags = listExtents(target.path).flatMap((extent) => extent.flags);
  assert.ok(flags.includes('inline'), `the files are not inline: ${flags}`);
  assert.deepEqual(ranges, [{ offset: 0n, size: 100n }]);
});

test('later writes to a volume without copy-on-write do not reach its snapshot', async () => {
  const work = await bench.write('btrfs-nodatacow');
  work.writer.write(0, bench.random.bytes(MIB));
  const flags = execFileSync('lsattr', [bench.pool('btrfs-nodatacow', 'volumes', work.volume.id)]);
  assert.match(flags.toString().split(' ')[0] ?? '', /C/);
  const base = await bench.snapshot(work);
  const before = Buffer.from(work.writer.model);
  for (const round of [1, 2, 3]) {
    work.writer.write(4096 * round, bench.random.bytes(65_536));
    const target = await bench.snapshot(work);
    assert.ok((await bench.soundDelta('btrfs-nodatacow', base, target)).differing >= 128);
  }
  await bench.soundSnapshot('btrfs-nodatacow', base, before);
  await bench.end(work);
});

test('preallocated blocks are zeros: not allocated, and not changed against a hole', async () => {
  for (const kind of ['xfs', 'btrfs'] as const) {
    const work = await bench.write(kind);
    const base = await bench.snapshot(work);
    work.writer.apply('zero-out', MIB, 2 * MIB);
    const target = await bench.snapshot(work);
    assert.deepEqual((await bench.client.allocated(target)).ranges, []);
    assert.deepEqual((await bench.client.delta(base, target)).ranges, []);
    await bench.end(work);
  }
});
