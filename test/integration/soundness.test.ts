/**
 * The soundness guarantee, tested through the socket: random work on a volume, snapshots taken and
 * deleted at random, and every list among the remaining ones compared with their bytes.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, type TestContext, test } from 'node:test';
import {
  BLOCK_OPERATIONS,
  type BlockOperation,
  BlockWriter,
  COMPRESSIBLE_OPERATIONS,
} from '../support/block-writer.js';
import { assertFiles, FileWriter } from '../support/file-writer.js';
import { isNightly } from '../support/nightly.js';
import { Plugin } from '../support/plugin.js';
import { seededRandom } from '../support/random.js';
import { SnapshotImage } from '../support/snapshot-image.js';
import { SnapshotWindow } from '../support/snapshot-window.js';
import { snapshotPath, TestVolume } from '../support/test-volume.js';
import {
  makePoolFileSystem,
  type PoolKind,
  skipUnlessRoot,
  Workspace,
} from '../support/workspace.js';

const MIB = 1 << 20;

const KINDS: readonly PoolKind[] = ['xfs', 'xfs-1k', 'btrfs', 'btrfs-zstd', 'btrfs-nodatacow'];
const BLOCK_VOLUME_BYTES = 16 * MIB;
const BLOCK_ROUNDS = isNightly ? 200 : 8;
const BLOCK_OPERATIONS_A_ROUND = 40;
const FILE_ROUNDS = isNightly ? 60 : 5;
const FILE_OPERATIONS_A_ROUND = 30;
const FILE_SYSTEMS = [
  { fsType: 'ext4', sizeBytes: 64 * MIB },
  { fsType: 'xfs', sizeBytes: 300 * MIB },
];

let workspace: Workspace;
let plugin: Plugin;
const writers: BlockWriter[] = [];
const pools = new Map<PoolKind, string>();

before(async () => {
  if (skipUnlessRoot !== false) return;
  workspace = new Workspace('soundness');
  for (const kind of KINDS) pools.set(kind, makePoolFileSystem(workspace, kind));
  const list = [...pools].map(([kind, directory]) => `${kind}=${directory}`);
  // soundness-change-lists.test.ts does the same with stored lists.
  const env = { BLOCKDELTA_CHANGE_LISTS: 'off' };
  plugin = await Plugin.start(workspace, { pools: list.join(','), env });
});

after(async () => {
  if (skipUnlessRoot !== false) return;
  try {
    for (const writer of writers) writer.close();
    await plugin?.stop();
  } finally {
    workspace.dispose();
  }
});

const poolOf = (kind: PoolKind): string => pools.get(kind) ?? '';

/** Compressed extents of a file, and all of them. */
function countEncoded(path: string): { encoded: number; extents: number } {
  const lines = execFileSync('filefrag', ['-v', path], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => /^ *\d+:/.test(line));
  return {
    encoded: lines.filter((line) => line.includes('encoded')).length,
    extents: lines.length,
  };
}

/** Restores a snapshot as a new volume and gives it to `look`, published. */
async function restored(
  source: { pool: PoolKind; fsType: string; id: string; sizeBytes: number },
  look: (targetPath: string) => void,
): Promise<void> {
  const volume = await TestVolume.create(plugin.client, workspace, {
    pool: source.pool,
    fsType: source.fsType,
    sizeBytes: source.sizeBytes,
    sourceSnapshotId: source.id,
  });
  await volume.publish();
  look(volume.targetPath);
  await volume.unpublish();
  await volume.delete();
}

async function soundOnBlocks(context: TestContext, kind: PoolKind): Promise<void> {
  const random = seededRandom(`raw block volume on ${kind}`);
  const operations: readonly BlockOperation[] =
    kind === 'btrfs-zstd' ? COMPRESSIBLE_OPERATIONS : BLOCK_OPERATIONS;
  const volume = await TestVolume.create(plugin.client, workspace, {
    pool: kind,
    sizeBytes: BLOCK_VOLUME_BYTES,
  });
  await volume.publish();
  const writer = new BlockWriter(volume.targetPath, BLOCK_VOLUME_BYTES, random);
  writers.push(writer);
  const window = new SnapshotWindow(plugin.client, volume, poolOf(kind), random);
  const compression = { encoded: 0, extents: 0 };
  for (let round = 0; round < BLOCK_ROUNDS; round += 1) {
    for (let count = 0; count < BLOCK_OPERATIONS_A_ROUND; count += 1) {
      writer.randomOperation(operations);
    }
    const { snapshot, image } = await window.cut(null);
    assertHolds(image, writer.model);
    await window.check();
    const found = countEncoded(snapshotPath(poolOf(kind), snapshot.id));
    compression.encoded += found.encoded;
    compression.extents += found.extents;
  }
  window.report((line) => context.diagnostic(`${kind}: ${line}`));
  if (kind === 'btrfs-zstd') {
    context.diagnostic(`${compression.encoded} of ${compression.extents} extents compressed`);
    assert.ok(compression.encoded > 0, 'nothing was compressed');
  }
  const last = window.live.at(-1);
  assert.ok(last !== undefined);
  const source = { pool: kind, fsType: '', ...last.snapshot };
  await restored(source, (path) =>
    assertSame(SnapshotImage.read(path, BLOCK_VOLUME_BYTES, last.image), last.image),
  );
  writer.close();
  await volume.unpublish();
}

function assertHolds(image: SnapshotImage, model: Buffer): void {
  assertSame(SnapshotImage.of(model, image), image);
}

function assertSame(found: SnapshotImage, wanted: SnapshotImage): void {
  const wrong = wanted.chunks.findIndex((_, index) => !wanted.sameChunk(found, index));
  assert.equal(wrong, -1, `chunk ${wrong} of 64 KiB has other bytes`);
}

async function soundOnFiles(
  context: TestContext,
  kind: PoolKind,
  { fsType, sizeBytes }: { fsType: string; sizeBytes: number },
): Promise<void> {
  const random = seededRandom(`${fsType} on ${kind}`);
  const volume = await TestVolume.create(plugin.client, workspace, {
    pool: kind,
    sizeBytes,
    fsType,
  });
  await volume.publish();
  const writer = new FileWriter(volume.targetPath, random);
  const window = new SnapshotWindow<ReadonlyMap<string, Buffer>>(
    plugin.client,
    volume,
    poolOf(kind),
    random,
  );
  for (let round = 0; round < FILE_ROUNDS; round += 1) {
    for (let count = 0; count < FILE_OPERATIONS_A_ROUND; count += 1) writer.randomOperation();
    await window.cut(writer.remember());
    await window.check();
  }
  window.report((line) => context.diagnostic(`${kind}, ${fsType}: ${line}`));
  const one = random.pick(window.live);
  await restored({ pool: kind, fsType, ...one.snapshot }, (path) => assertFiles(path, one.note));
  await volume.unpublish();
}

for (const kind of KINDS) {
  test(
    `SM23 and SM24: no list of a raw block volume on ${kind} misses a byte`,
    { skip: skipUnlessRoot },
    (context) => soundOnBlocks(context, kind),
  );
  for (const fileSystem of FILE_SYSTEMS) {
    test(
      `SM23 and SM24: no list of a volume with ${fileSystem.fsType} on ${kind} misses a byte`,
      { skip: skipUnlessRoot },
      (context) => soundOnFiles(context, kind, fileSystem),
    );
  }
}
