/** What is written into images of both kinds, how long their files are, and what QEMU says of them. */
import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, openSync, readFileSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { copyIntoImage } from '../../../src/tools/backup/copy-image.js';
import { writeRanges } from '../../../src/tools/backup/ranges-file.js';
import type { Entry } from '../../../src/tools/client/list.js';
import { BLOCK_BYTES, checkImage, compareImages, mapImage } from '../../../src/tools/nbd/image.js';
import { readImageHeader } from '../../../src/tools/nbd/image-header.js';
import { type Random, seededRandom } from '../../support/random.js';
import { temporaryDirectory } from '../../support/temporary.js';

const MIB = 1 << 20;
const BLOCK = Number(BLOCK_BYTES);
const KINDS = [null, 'zstd'] as const;
type Kind = (typeof KINDS)[number];
const { signal } = new AbortController();

async function* batch(entries: readonly Entry[]): AsyncGenerator<readonly Entry[]> {
  yield entries;
}

/** Copies ranges of bytes into an image in the directory, and resolves to its path. */
async function copied(
  directory: string,
  bytes: Buffer,
  entries: readonly Entry[],
  { below = [], compression = 'zstd' }: { below?: readonly string[]; compression?: Kind } = {},
): Promise<string> {
  const [device, path] = [join(directory, 'device'), join(directory, `${below.length}-${compression}.qcow2`)];
  writeFileSync(device, bytes);
  const from = { device };
  await copiedFrom(device, path, entries, { backing: below[0] === undefined ? null : basename(below[0]), compression });
  const { isSame, detail } = await compareImages(from, { chain: [path, ...below] });
  assert.ok(isSame, detail);
  assert.equal((await checkImage(path)).leaks, 0);
  assert.equal((await readImageHeader(path)).sizeBytes, BigInt(bytes.length));
  return path;
}

async function copiedFrom(
  device: string,
  path: string,
  entries: readonly Entry[],
  { backing, compression }: { backing: string | null; compression: Kind },
): Promise<void> {
  const sizeBytes = BigInt(statSync(device).size);
  const ranges = await writeRanges(batch(entries), {
    of: 'bytes',
    path: `${path}.ranges`,
    grainBytes: BLOCK_BYTES,
    sizeBytes: () => sizeBytes,
  });
  await copyIntoImage({ from: { device }, ranges, path, backing, sizeBytes, compression, signal });
}

/** The blocks that the first image of the chain holds. */
async function heldBlocks(chain: readonly string[]): Promise<number[]> {
  const held: number[] = [];
  for await (const ranges of mapImage(chain)) {
    for (const { offset, size, holder } of ranges) {
      if (holder !== 0) continue;
      for (let at = Number(offset); at < Number(offset + size); at += BLOCK) held.push(at / BLOCK);
    }
  }
  return held;
}

const all = (bytes: Buffer): Entry[] => [{ offset: 0n, size: BigInt(bytes.length) }];

/** Repeats a text, so that it compresses well. */
function text(size: number): Buffer {
  const page = Buffer.from('The same words again and again. '.repeat(128));
  return Buffer.alloc(size, page);
}

for (const rest of [0, 512, 12_288]) {
  test(`a device with ${rest} bytes behind its last whole cluster is compressed, and has its size`, async () => {
    const bytes = text(4 * MIB + rest);
    seededRandom('incompressible').bytes(MIB).copy(bytes, MIB);
    if (rest > 0)
      seededRandom('the end')
        .bytes(rest)
        .copy(bytes, 4 * MIB);
    const path = await copied(temporaryDirectory(), bytes, all(bytes));
    const { size } = statSync(path);
    assert.ok(size > MIB && size < 2 * MIB, `${size} bytes`);
  });
}

for (const compression of KINDS) {
  test(`an increment has the blocks of its list alone, and zeros among them, compression ${compression}`, async () => {
    const directory = temporaryDirectory();
    const bytes = text(4 * MIB);
    const full = await copied(directory, bytes, all(bytes), { compression });
    const before = readFileSync(full);
    const random = seededRandom('increment');
    const changed = [0, 85, 96, 1023];
    for (const [at, block] of changed.entries()) {
      (at === 1 ? Buffer.alloc(BLOCK) : random.bytes(BLOCK)).copy(bytes, block * BLOCK);
    }
    const entries = changed.map((block) => ({ offset: BigInt(block * BLOCK), size: BLOCK_BYTES }));
    const path = await copied(directory, bytes, entries, { below: [full], compression });
    assert.deepEqual(await heldBlocks([path, full]), changed);
    assert.ok(readFileSync(full).equals(before));
  });
}

test('a chain of images with random lists has every byte, whatever their clusters, and compressed ones are not longer', async () => {
  const random = seededRandom('chains');
  const clusters = new Set<string>();
  for (let round = 0; round < 4; round += 1) {
    const directory = temporaryDirectory();
    const bytes = random.bytes((4 + random.below(4)) * MIB + 512 * random.below(16));
    const below: string[] = [];
    for (let depth = 0; depth < 4; depth += 1) {
      const entries = depth === 0 ? all(bytes) : changes(bytes, random);
      const paths: string[] = [];
      for (const compression of KINDS) paths.push(await copied(directory, bytes, entries, { below, compression }));
      const [plain = 0, compressed = 0] = paths.map((path) => statSync(path).size);
      assert.ok(compressed <= plain, `round ${round}, depth ${depth}: ${compressed} bytes compressed, ${plain} plain`);
      for (const path of paths) clusters.add(`${readFileSync(path).readUInt32BE(20)}`);
      below.unshift(random.pick(paths));
    }
  }
  assert.deepEqual([...clusters].sort(), ['12', '16', '17']);
});

/** Changes random places of random sizes, some to zeros, and returns them in ascending order. */
function changes(bytes: Buffer, random: Random): Entry[] {
  const most = random.pick([1, 16, 512]);
  const entries: Entry[] = [];
  for (let at = BLOCK * random.below(64); at < bytes.length; at += BLOCK * (1 + random.below(4 * most))) {
    const size = Math.min(bytes.length - at, BLOCK * (1 + random.below(most)));
    (random.below(4) === 0 ? Buffer.alloc(size) : random.bytes(size)).copy(bytes, at);
    entries.push({ offset: BigInt(at), size: BigInt(size) });
    at += size;
  }
  return entries;
}

for (const compression of KINDS) {
  test(`1 % of a volume, changed in blocks at random places, makes a file of at most 1.5 of it, compression ${compression}`, async () => {
    const directory = temporaryDirectory();
    const [device, path] = [join(directory, 'device'), join(directory, 'scattered.qcow2')];
    const random = seededRandom('scattered');
    const count = 2 ** 18;
    const blocks = new Set(Array.from({ length: count / 100 }, () => random.below(count)));
    const file = openSync(device, 'w');
    ftruncateSync(file, count * BLOCK);
    for (const block of blocks) writeSync(file, random.bytes(BLOCK), 0, BLOCK, block * BLOCK);
    closeSync(file);
    const ascending = [...blocks].sort((a, b) => a - b);
    const entries = ascending.map((block) => ({ offset: BigInt(block * BLOCK), size: BLOCK_BYTES }));
    await copiedFrom(device, path, entries, { backing: null, compression });
    assert.deepEqual(await heldBlocks([path]), ascending);
    const { size } = statSync(path);
    assert.ok(size <= 1.5 * blocks.size * BLOCK, `${size} bytes for ${blocks.size * BLOCK}`);
  });
}
