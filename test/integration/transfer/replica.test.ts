/**
 * A replica plus a list is the snapshot: snapshots of a pool of one file system are pulled into a pool of another, the first one
 * whole, each later one by what changed, piece by piece, and compared byte for byte. The calls between nodes are left out.
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { newSnapshotId, newVolumeId } from '../../../src/base/csi/handles.js';
import type { Backend } from '../../../src/driver/backends/backend.js';
import { fetchData, fetchZeros } from '../../../src/driver/transfer/fetch.js';
import { type Piece, type Range, writePiece } from '../../../src/driver/transfer/piece-list.js';
import { serveTransfer } from '../../../src/driver/transfer/serve.js';
import { newTicket } from '../../../src/driver/transfer/ticket.js';
import { ReflinkPool } from '../../backend/reflink-fixture.js';
import { blockDiscard } from '../../support/ioctls.js';
import { attachLoop, detachLoop } from '../../support/loops.js';
import { seededRandom } from '../../support/random.js';
import { TEST_NODE_KEY } from '../../support/records.js';
import { scanAll } from '../../support/wire.js';
import { type PoolKind, skipUnlessRoot } from '../../support/workspace.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const ROUNDS = 6;
const LIMITS = { maxRanges: 20, maxBytes: 2n << 20n };

const pools: ReflinkPool[] = [];
after(async () => {
  for (const pool of pools) await pool.dispose();
});

async function openPool(label: string, kind: PoolKind): Promise<{ pool: ReflinkPool; backend: Backend }> {
  const pool = new ReflinkPool();
  pools.push(pool);
  pool.make(label, kind);
  return { pool, backend: await pool.open({ changeLists: true }) };
}

async function* from(ranges: readonly Range[], start: bigint): AsyncGenerator<readonly Range[]> {
  for (const { offset, size } of ranges) {
    const begin = offset < start ? start : offset;
    if (offset + size > begin) yield [{ offset: begin, size: offset + size - begin }];
  }
}

for (const [kind, other] of [
  ['xfs', 'btrfs'],
  ['btrfs', 'xfs-1k'],
] as const) {
  test(`snapshots on ${kind} become the same replicas on ${other}, also from deleted bases and after growth`, {
    skip: skipUnlessRoot,
  }, async (t) => {
    const random = seededRandom(`replicas of ${kind} on ${other}`);
    const source = await openPool(`source-${kind}`, kind);
    const target = await openPool(`target-${other}`, other);
    const { replicas } = target.backend;
    assert.ok(replicas !== undefined);
    const signal = new AbortController().signal;
    const directory = target.pool.workspace.directory;
    let pieces = 0;
    let copiedBytes = 0n;

    const pull = async (snapshotId: string, baseId: string | null, sizeBytes: bigint): Promise<void> => {
      const changed = await listOf(source, snapshotId, baseId);
      const held = await listOf(source, snapshotId, null);
      const path = join(source.pool.directory, 'snapshots', snapshotId);
      const devicePath = attachLoop(path, '--read-only');
      await replicas.begin(snapshotId, sizeBytes, baseId);
      try {
        let piece: Piece | null = null;
        for (let start: bigint | null = 0n; start !== null; start = piece.nextOffset) {
          const listPath = join(directory, `list-${pieces}`);
          piece = await writePiece(listPath, from(changed, start), from(held, start), LIMITS);
          pieces += 1;
          copiedBytes += piece.dataBytes;
          const ticket = newTicket();
          const place = { host: '127.0.0.1', directory, signal, dataBytes: piece.dataBytes, ticket };
          const server = await serveTransfer({ ...place, devicePath, listPath, port: 0, bytesPerSecond: null });
          const device = await replicas.open(snapshotId);
          const asked = { ...place, port: server.port, devicePath: device.path, requestSize: BLOCK, stallMs: 60_000 };
          await fetchData(asked);
          const zeros: Range[] = [];
          await fetchZeros({ ...asked, sizeBytes }, (ranges) => void zeros.push(...ranges));
          await device.punch(zeros);
          await device.close();
          await server.close();
        }
      } finally {
        detachLoop(devicePath);
      }
      await replicas.complete(snapshotId);
    };

    const volumeId = newVolumeId(TEST_NODE_KEY);
    let size = 16 * MIB;
    await source.backend.volumes.create(volumeId, BigInt(size));
    const { devicePath } = await source.backend.attachments.attach(volumeId, { readOnly: false });
    let fd = openSync(devicePath, 'r+');
    const work = (): void => {
      for (let index = 0; index < 30; index += 1) {
        const offset = random.below(size / BLOCK - 64) * BLOCK;
        const length = (1 + random.below(64)) * BLOCK;
        if (random.below(4) > 0)
          writeSync(fd, random.below(5) > 0 ? random.bytes(length) : Buffer.alloc(length), 0, length, offset);
        else {
          fsyncSync(fd);
          blockDiscard(fd, offset, length);
        }
      }
      fsyncSync(fd);
    };
    const taken: { id: string; content: Buffer }[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      if (round === 3) {
        size += 8 * MIB;
        closeSync(fd);
        await source.backend.volumes.expand(volumeId, BigInt(size));
        fd = openSync(devicePath, 'r+');
      }
      work();
      const id = newSnapshotId(TEST_NODE_KEY);
      await source.backend.snapshots.create([{ volumeId, snapshotId: id }]);
      const base = taken.at(-1)?.id ?? null;
      if (base !== null && round % 2 === 0) {
        // The list to the new snapshot is what is left of the base.
        await storeList(source.backend, id, base);
        await source.backend.bases.retain(base, id);
        await source.backend.snapshots.delete(base);
      }
      await pull(id, base, BigInt(size));
      taken.push({ id, content: readFileSync(join(source.pool.directory, 'snapshots', id)) });
    }
    closeSync(fd);
    for (const { id, content } of taken) {
      await replicas.check(id, BigInt(content.length));
      const replica = readFileSync(join(target.pool.directory, 'snapshots', `${id}.replica`));
      assert.ok(replica.equals(content), `the replica of ${id} differs`);
    }
    await source.backend.attachments.detach(volumeId);
    t.diagnostic(`${pieces} pieces, ${copiedBytes} bytes copied`);
    assert.ok(pieces > ROUNDS);
  });
}

async function listOf({ pool, backend }: { pool: ReflinkPool; backend: Backend }, id: string, base: string | null) {
  return (await scanAll(pool.native, (await backend.changes.scan(id, base)).source)).ranges;
}

async function storeList(backend: Backend, targetId: string, baseId: string): Promise<void> {
  const list = await backend.changes.begin(targetId, baseId);
  assert.ok(list !== null);
  while (!(await list.step()));
}
