/** The digests by which two nodes compare a snapshot and its copy, over files that stand for devices. */
import assert from 'node:assert/strict';
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newSnapshotId, nodeKey } from '../../../src/base/csi/handles.js';
import { CsiError } from '../../../src/base/errors.js';
import { digestPart } from '../../../src/driver/replicas/digest.js';
import { OperationLocks } from '../../../src/driver/volumes/operation-locks.js';
import { seededRandom } from '../../support/random.js';
import { refused } from '../../support/refusal.js';
import { temporaryDirectory } from '../../support/temporary.js';

const MIB = 1 << 20;
const snapshotId = newSnapshotId(nodeKey('a'));
const { signal } = new AbortController();

interface Node {
  snapshot?: { state: string; sizeBytes: bigint };
  replica?: { nextOffset: bigint | null; sizeBytes: bigint };
  path?: string;
  check?: () => Promise<void>;
}

/** A node with a snapshot or a replica whose device is a file. */
function node({ snapshot, replica, path = '', check = async () => undefined }: Node) {
  let open = 0;
  const opened = async () => {
    open += 1;
    const close = async () => {
      open -= 1;
    };
    return { path, close };
  };
  const facets = { snapshots: { check, open: opened }, replicas: { check, openComplete: opened } };
  const deps = {
    catalogue: { snapshotById: async () => snapshot ?? null, replicaById: async () => replica ?? null },
    registry: { owning: () => facets },
    locks: new OperationLocks(),
  };
  return {
    digest: (offset: number, lengthBytes: number) =>
      digestPart(deps as never, { snapshotId, offset: BigInt(offset), lengthBytes: BigInt(lengthBytes) }, signal),
    open: () => open,
  };
}

function file(content: Buffer): string {
  const path = join(temporaryDirectory(), 'device');
  writeFileSync(path, content);
  return path;
}

const ofSnapshot = (content: Buffer, path = file(content)) =>
  node({ snapshot: { state: 'ready', sizeBytes: BigInt(content.length) }, path });

const ofReplica = (content: Buffer) =>
  node({ replica: { nextOffset: null, sizeBytes: BigInt(content.length) }, path: file(content) });

test('parts have equal digests exactly if their contents are equal', async () => {
  const random = seededRandom('digests');
  const sizes = [3 * MIB, 2 * MIB + 512];
  for (let round = 0; round < 20; round += 1) {
    const size = random.pick(sizes);
    const content = Buffer.alloc(size);
    for (let count = random.below(4); count > 0; count -= 1)
      random.bytes(4096).copy(content, random.below(size / 512 - 8) * 512);
    const other = Buffer.from(content);
    const changed = random.below(size);
    const isChanged = random.below(2) === 1;
    if (isChanged) other[changed] = (other[changed] ?? 0) ^ 1;
    const [a, b] = [ofSnapshot(content), ofReplica(other)];
    for (let offset = 0; offset < size; offset += MIB) {
      const [one, two] = [await a.digest(offset, MIB), await b.digest(offset, MIB)];
      const isHere = isChanged && changed >= offset && changed < offset + MIB;
      assert.equal(one.sha256.equals(two.sha256), !isHere, `${offset} of ${size}, changed at ${changed}`);
      assert.equal(one.sizeBytes, BigInt(size));
    }
    assert.deepEqual([a.open(), b.open()], [0, 0]);
  }
});

test('a block that has moved is a difference, and zeros that were never written are none', async () => {
  const block = seededRandom('a block').bytes(MIB);
  const zeros = Buffer.alloc(MIB);
  const digest = async (...blocks: Buffer[]) => (await ofSnapshot(Buffer.concat(blocks)).digest(0, 4 * MIB)).sha256;
  assert.notDeepEqual(await digest(block, zeros, zeros), await digest(zeros, block, zeros));
  const sparse = file(block);
  truncateSync(sparse, 3 * MIB);
  const { sha256 } = await ofSnapshot(Buffer.concat([block, zeros, zeros]), sparse).digest(0, 4 * MIB);
  assert.deepEqual(sha256, await digest(block, zeros, zeros));
});

test('what is not whole has no digest, and neither has a device that ends too early', async () => {
  const size = BigInt(MIB);
  const path = file(Buffer.alloc(MIB));
  const check = () => Promise.reject(CsiError.failedPrecondition('another program has changed it'));
  for (const [has, message] of [
    [{}, /neither snapshot .* nor a complete copy/],
    [{ snapshot: { state: 'creating', sizeBytes: size }, path }, /neither/],
    [{ replica: { nextOffset: 0n, sizeBytes: size }, path }, /neither/],
    [{ replica: { nextOffset: null, sizeBytes: size }, path, check }, /another program has changed it/],
    [{ snapshot: { state: 'ready', sizeBytes: size }, path, check }, /another program has changed it/],
  ] as const) {
    await refused(node(has).digest(0, MIB), 'NOT_FOUND', message);
  }
  const short = node({ snapshot: { state: 'ready', sizeBytes: 2n * size }, path });
  await refused(short.digest(MIB, MIB), 'INTERNAL', /only 0 of 1048576 bytes at 1048576 were read/);
  assert.equal(short.open(), 0);
});
