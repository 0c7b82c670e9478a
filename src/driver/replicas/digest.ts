/** The digest of a part of a snapshot, or of a replica of one, so that two nodes can compare what they have without sending it. */
import { createHash, webcrypto } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { CsiError, StatusCode } from '../../base/errors.js';
import type { OpenSnapshot } from '../backends/backend.js';
import type { BackendRegistry } from '../backends/registry.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import { type OperationLocks, sharedByPlugin, snapshotKey } from '../volumes/operation-locks.js';

export interface SnapshotPart {
  readonly snapshotId: string;
  /** A multiple of BLOCK_BYTES. */
  readonly offset: bigint;
  /** The part ends after so many bytes, or where the snapshot does. */
  readonly lengthBytes: bigint;
}

export interface PartDigest {
  readonly sha256: Buffer;
  /** Of the whole snapshot. */
  readonly sizeBytes: bigint;
}

export interface DigestDependencies {
  catalogue: Pick<AsyncCatalogue, 'snapshotById' | 'replicaById'>;
  registry: BackendRegistry;
  locks: OperationLocks;
}

export const BLOCK_BYTES = 1n << 20n;
const ZEROS = Buffer.alloc(Number(BLOCK_BYTES));

/**
 * Depends on the content alone: a block of zeros counts as a hole does. NOT_FOUND unless this node has the snapshot, or a complete
 * replica of it, and nothing can have changed it.
 */
export async function digestPart(
  deps: DigestDependencies,
  part: SnapshotPart,
  signal: AbortSignal,
): Promise<PartDigest> {
  const { sizeBytes, device } = await openSnapshot(deps, part.snapshotId, signal);
  try {
    const file = await open(device.path);
    try {
      return { sha256: await digestBlocks(file, part, sizeBytes, signal), sizeBytes };
    } finally {
      await file.close();
    }
  } finally {
    await device.close();
  }
}

/** The device keeps the bytes, so the lock is needed no longer. */
async function openSnapshot(
  { catalogue, registry, locks }: DigestDependencies,
  snapshotId: string,
  signal: AbortSignal,
): Promise<{ sizeBytes: bigint; device: OpenSnapshot }> {
  const release = await locks.acquireFor([sharedByPlugin(snapshotKey(snapshotId))], signal);
  try {
    const snapshot = await catalogue.snapshotById(snapshotId);
    const replica = snapshot === null ? await catalogue.replicaById(snapshotId) : null;
    const { pool, sizeBytes } = snapshot ?? replica ?? { pool: '', sizeBytes: 0n };
    const isThere = snapshot?.state === 'ready' || replica?.nextOffset === null;
    const { snapshots, replicas } = isThere ? registry.owning(pool) : {};
    const facet = snapshot === null ? replicas : snapshots;
    await facet?.check(snapshotId, sizeBytes);
    const device = await (snapshot === null ? replicas?.openComplete(snapshotId) : snapshots?.open?.(snapshotId));
    if (device !== undefined) return { sizeBytes, device };
    throw CsiError.notFound(`this node has neither snapshot ${snapshotId} nor a complete copy of it that can be read`);
  } catch (thrown) {
    const { code, message } = CsiError.from(thrown);
    throw code === StatusCode.FAILED_PRECONDITION ? CsiError.notFound(message, { cause: thrown }) : thrown;
  } finally {
    release();
  }
}

/** The threads of libuv read and hash: a part takes seconds, and the main thread has calls to answer. */
async function digestBlocks(
  file: FileHandle,
  { offset, lengthBytes }: SnapshotPart,
  sizeBytes: bigint,
  signal: AbortSignal,
): Promise<Buffer> {
  const hash = createHash('sha256');
  const end = least(offset + lengthBytes, sizeBytes);
  const buffer = Buffer.alloc(ZEROS.length);
  for (let at = offset; at < end; at += BLOCK_BYTES) {
    signal.throwIfAborted();
    const block = buffer.subarray(0, Number(least(end - at, BLOCK_BYTES)));
    const { bytesRead } = await file.read(block, 0, block.length, Number(at));
    if (bytesRead !== block.length)
      throw CsiError.internal(`only ${bytesRead} of ${block.length} bytes at ${at} were read`);
    if (block.equals(ZEROS.subarray(0, block.length))) continue;
    hash.update(`${at} `).update(new Uint8Array(await webcrypto.subtle.digest('SHA-256', block)));
  }
  return hash.digest();
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
