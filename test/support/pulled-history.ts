/**
 * Pulls the history of one volume from a backend into replicas of another, as nodes do but for their calls: the first snapshot
 * whole, each later one by what changed, piece by piece. Each replica is compared byte for byte.
 */
import assert from 'node:assert/strict';
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { newSnapshotId, newVolumeId } from '../../src/base/csi/handles.js';
import type { Backend, PoolReplicas } from '../../src/driver/backends/backend.js';
import type { NativeFiller } from '../../src/driver/native/pool.js';
import { fetchData, fetchZeros } from '../../src/driver/transfer/fetch.js';
import { type Piece, type Range, writePiece } from '../../src/driver/transfer/piece-list.js';
import { serveTransfer } from '../../src/driver/transfer/serve.js';
import { newTicket } from '../../src/driver/transfer/ticket.js';
import { blockDiscard } from './ioctls.js';
import { seededRandom } from './random.js';
import { TEST_NODE_KEY } from './records.js';
import { scanAll } from './wire.js';

const MIB = 1 << 20;
const BLOCK = 4096;
const LIMITS = { maxRanges: 20, maxBytes: 2n << 20n };

export interface PulledHistory {
  source: Backend;
  target: Backend;
  /** Of the source. */
  native: NativeFiller;
  /** Only this user can enter it. */
  directory: string;
  rounds: number;
  /** Of the source's blocks: discards of parts of them change nothing. */
  discardGranularity: number;
}

/** Returns how many pieces there were, and how much was copied. */
export async function pullHistory(
  label: string,
  { source, target, native, directory, rounds, discardGranularity }: PulledHistory,
): Promise<{ pieces: number; copiedBytes: bigint }> {
  const random = seededRandom(label);
  const { replicas } = target;
  assert.ok(replicas !== undefined);
  const signal = new AbortController().signal;
  let pieces = 0;
  let copiedBytes = 0n;
  const listOf = async (id: string, base: string | null) =>
    (await scanAll(native, (await source.changes.scan(id, base)).source)).ranges;

  const pull = async (snapshotId: string, baseId: string | null, sizeBytes: bigint, devicePath: string) => {
    const changed = await listOf(snapshotId, baseId);
    const held = await listOf(snapshotId, null);
    await replicas.begin(snapshotId, sizeBytes, baseId);
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
      await device.flush();
      await device.close();
      await server.close();
    }
    await replicas.complete(snapshotId);
  };

  const volumeId = newVolumeId(TEST_NODE_KEY);
  let size = 16 * MIB;
  await source.volumes.create(volumeId, BigInt(size));
  let fd = openSync((await source.attachments.attach(volumeId, { readOnly: false })).devicePath, 'r+');
  const work = (): void => {
    for (let index = 0; index < 30; index += 1) {
      const offset = random.below(size / BLOCK - 64) * BLOCK;
      const length = (1 + random.below(64)) * BLOCK;
      if (random.below(4) > 0) {
        writeSync(fd, random.below(5) > 0 ? random.bytes(length) : Buffer.alloc(length), 0, length, offset);
        continue;
      }
      fsyncSync(fd);
      const begin = Math.floor(offset / discardGranularity) * discardGranularity;
      blockDiscard(fd, begin, Math.ceil(length / discardGranularity) * discardGranularity);
    }
    fsyncSync(fd);
  };
  const taken: { id: string; content: Buffer }[] = [];
  for (let round = 0; round < rounds; round += 1) {
    if (round === Math.floor(rounds / 2)) {
      size += 8 * MIB;
      closeSync(fd);
      await source.volumes.expand(volumeId, BigInt(size));
      fd = openSync((await source.attachments.find(volumeId))?.devicePath ?? '', 'r+');
    }
    work();
    const id = newSnapshotId(TEST_NODE_KEY);
    await source.snapshots.create([{ volumeId, snapshotId: id }]);
    const base = taken.at(-1)?.id ?? null;
    if (base !== null && round % 2 === 0) {
      // The list to the new snapshot is what is left of the base.
      const list = await source.changes.begin(id, base);
      while (list !== null && !(await list.step()));
      await source.bases.retain(base, id);
      await source.snapshots.delete(base);
    }
    const opened = await source.snapshots.open?.(id);
    assert.ok(opened !== undefined);
    taken.push({ id, content: readFileSync(opened.path) });
    await pull(id, base, BigInt(size), opened.path);
    await opened.close();
  }
  closeSync(fd);
  await source.attachments.detach(volumeId);
  for (const { id, content } of taken) {
    await replicas.check(id, BigInt(content.length));
    assert.ok((await contentOf(target, id, content.length)).equals(content), `the replica of ${id} differs`);
    await removed(replicas, id);
  }
  return { pieces, copiedBytes };
}

async function removed(replicas: PoolReplicas, id: string): Promise<void> {
  await replicas.delete(id);
  assert.ok(!(await replicas.list()).some(({ snapshotId }) => snapshotId === id));
}

/** Of a volume that is made from the replica. */
async function contentOf(backend: Backend, replicaId: string, size: number): Promise<Buffer> {
  const volumeId = newVolumeId(TEST_NODE_KEY);
  await backend.volumes.create(volumeId, BigInt(size), { replicaId });
  const { devicePath } = await backend.attachments.attach(volumeId, { readOnly: true });
  const content = readFileSync(devicePath);
  await backend.attachments.detach(volumeId);
  await backend.volumes.delete(volumeId);
  return content;
}

async function* from(ranges: readonly Range[], start: bigint): AsyncGenerator<readonly Range[]> {
  for (const { offset, size } of ranges) {
    const begin = offset < start ? start : offset;
    if (offset + size > begin) yield [{ offset: begin, size: offset + size - begin }];
  }
}
