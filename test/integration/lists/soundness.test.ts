/**
 * The soundness guarantee, tested through the socket: random work on a volume, snapshots taken and
 * deleted at random, and every list among the remaining ones compared with their bytes.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { BLOCK_OPERATIONS, COMPRESSIBLE_OPERATIONS } from '../../support/block-writer.js';
import { mountCapability } from '../../support/csi-client.js';
import { countWith, listExtents } from '../../support/extent-list.js';
import { assertFiles, FileWriter } from '../../support/file-writer.js';
import { isNightly } from '../../support/nightly.js';
import type { HeldVolume } from '../../support/orchestrator.js';
import { seededRandom } from '../../support/random.js';
import { useBench } from '../../support/reflink-bench.js';
import { test } from '../../support/running-plugin.js';
import { SnapshotImage } from '../../support/snapshot-image.js';
import { SnapshotWindow } from '../../support/snapshot-window.js';
import type { PoolKind } from '../../support/workspace.js';

const MIB = 1 << 20;

const KINDS: readonly PoolKind[] = ['xfs', 'xfs-1k', 'btrfs', 'btrfs-zstd', 'btrfs-nodatacow'];
const BLOCK_VOLUME_BYTES = 16 * MIB;
const BLOCK_ROUNDS = isNightly ? 80 : 3;
const BLOCK_OPERATIONS_A_ROUND = 40;
const FILE_ROUNDS = isNightly ? 24 : 2;
const FILE_OPERATIONS_A_ROUND = 30;
const FILE_SYSTEMS = [
  { fsType: 'ext4', sizeBytes: 64 * MIB },
  { fsType: 'xfs', sizeBytes: 300 * MIB },
];
/** Those of a plain run; raw block volumes are on every kind of pool. */
const PLAIN_FILES = ['ext4 on btrfs', 'xfs on xfs'];

// soundness-change-lists.test.ts does the same with stored lists.
const bench = useBench('soundness', KINDS);

/** Restores a snapshot as a new volume and gives it to `look`, published. */
async function restored(
  kind: PoolKind,
  { capability, sizeBytes }: HeldVolume,
  snapshotId: string,
  look: (targetPath: string) => void,
): Promise<void> {
  const volume = await bench.volume(kind, { capability, sizeBytes, snapshotId });
  look(volume.targetPath);
  await bench.orchestrator.remove(volume);
}

async function soundOnBlocks(context: TestContext, kind: PoolKind): Promise<void> {
  const random = seededRandom(`raw block volume on ${kind}`);
  const operations = kind === 'btrfs-zstd' ? COMPRESSIBLE_OPERATIONS : BLOCK_OPERATIONS;
  const work = await bench.write(kind, BLOCK_VOLUME_BYTES, random);
  const { volume, writer } = work;
  const window = new SnapshotWindow(bench, work, random);
  const compression = { encoded: 0, extents: 0 };
  for (let round = 0; round < BLOCK_ROUNDS; round += 1) {
    writer.randomOperations(BLOCK_OPERATIONS_A_ROUND, operations);
    const { id, image } = await window.take(null);
    image.assertSame(SnapshotImage.of(writer.model, image));
    await window.check();
    const found = listExtents(bench.snapshotPath(kind, id));
    compression.encoded += countWith(found, 'encoded');
    compression.extents += found.length;
  }
  window.report((line) => context.diagnostic(`${kind}: ${line}`));
  if (kind === 'btrfs-zstd') {
    context.diagnostic(`${compression.encoded} of ${compression.extents} extents compressed`);
    assert.ok(compression.encoded > 0, 'nothing was compressed');
  }
  const last = window.live.at(-1);
  assert.ok(last !== undefined);
  await restored(kind, volume, last.id, (path) =>
    last.image.assertSame(SnapshotImage.read(path, BLOCK_VOLUME_BYTES, last.image)),
  );
  await bench.end(work);
}

async function soundOnFiles(
  context: TestContext,
  kind: PoolKind,
  { fsType, sizeBytes }: { fsType: string; sizeBytes: number },
): Promise<void> {
  const random = seededRandom(`${fsType} on ${kind}`);
  const volume = await bench.volume(kind, { sizeBytes, capability: mountCapability(fsType) });
  const writer = new FileWriter(volume.targetPath, random);
  type Files = ReadonlyMap<string, Buffer>;
  const window = new SnapshotWindow<Files>(bench, { kind, volume }, random);
  for (let round = 0; round < FILE_ROUNDS; round += 1) {
    for (let count = 0; count < FILE_OPERATIONS_A_ROUND; count += 1) writer.randomOperation();
    await window.take(writer.remember());
    await window.check();
  }
  window.report((line) => context.diagnostic(`${kind}, ${fsType}: ${line}`));
  const one = random.pick(window.live);
  await restored(kind, volume, one.id, (path) => assertFiles(path, one.note));
  await bench.orchestrator.remove(volume);
}

for (const kind of KINDS) {
  test(`SM23 and SM24: no list of a raw block volume on ${kind} misses a byte`, (context) =>
    soundOnBlocks(context, kind));
  for (const fileSystem of FILE_SYSTEMS) {
    const { fsType } = fileSystem;
    if (!isNightly && !PLAIN_FILES.includes(`${fsType} on ${kind}`)) continue;
    test(`SM23 and SM24: no list of a volume with ${fsType} on ${kind} misses a byte`, (context) =>
      soundOnFiles(context, kind, fileSystem));
  }
}
