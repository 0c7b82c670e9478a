/** Images with compressed clusters: what is written, how much of it, and what QEMU says of the result. */
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { copyIntoImage } from '../../../src/tools/backup/copy-image.js';
import { writeRanges } from '../../../src/tools/backup/ranges-file.js';
import type { Entry } from '../../../src/tools/client/list.js';
import { COMPRESSED_BYTES, compareImages, mapImage, wholeClusters } from '../../../src/tools/nbd/image.js';
import { readImageHeader } from '../../../src/tools/nbd/image-header.js';
import { seededRandom } from '../../support/random.js';
import { openRuntime } from '../../support/runtime.js';
import { temporaryDirectory } from '../../support/temporary.js';

const MIB = 1 << 20;
const CLUSTER = Number(COMPRESSED_BYTES);
const { signal } = new AbortController();

async function* batch(entries: readonly Entry[]): AsyncGenerator<readonly Entry[]> {
  yield entries;
}

/** Copies ranges of bytes into an image in the directory, and resolves to its path. */
async function copied(directory: string, bytes: Buffer, entries: readonly Entry[], below: readonly string[] = []) {
  const [device, path] = [join(directory, 'device'), join(directory, `${below.length}.qcow2`)];
  writeFileSync(device, bytes);
  const sizeBytes = BigInt(bytes.length);
  const ranges = await writeRanges(batch(entries), {
    of: 'bytes',
    path: `${path}.ranges`,
    grainBytes: wholeClusters('zstd', 4096n),
    sizeBytes: () => sizeBytes,
  });
  const runtime = await openRuntime(join(directory, 'runtime'));
  const from = { device };
  await copyIntoImage({
    from,
    ranges,
    path,
    backing: below[0] === undefined ? null : basename(below[0]),
    sizeBytes,
    compression: 'zstd',
    runtime,
    signal,
  });
  const { isSame, detail } = await compareImages(from, { chain: [path, ...below] });
  assert.ok(isSame, detail);
  assert.equal((await readImageHeader(path)).sizeBytes, sizeBytes);
  return path;
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

test('an increment has the clusters of its list alone, each whole, and zeros among them', async () => {
  const directory = temporaryDirectory();
  const bytes = text(4 * MIB);
  const full = await copied(directory, bytes, all(bytes));
  const before = readFileSync(full);
  const random = seededRandom('increment');
  const changed = [0, 5, 6, 63].map((cluster) => cluster * CLUSTER + 4096 * random.below(16));
  for (const [at, offset] of changed.entries()) {
    (at === 1 ? Buffer.alloc(4096) : random.bytes(4096)).copy(bytes, offset);
  }
  const entries = changed.map((offset) => ({ offset: BigInt(offset), size: 4096n }));
  const path = await copied(directory, bytes, entries, [full]);
  const held: number[] = [];
  for await (const ranges of mapImage([path, full])) {
    for (const { offset, size, holder } of ranges) {
      if (holder !== 0) continue;
      for (let at = Number(offset); at < Number(offset + size); at += CLUSTER) held.push(at / CLUSTER);
    }
  }
  assert.deepEqual(held, [0, 5, 6, 63]);
  assert.ok(readFileSync(full).equals(before));
});
