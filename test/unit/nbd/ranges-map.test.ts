/** A map of ranges is what QEMU reads from it. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { writeMap } from '../../../src/tools/nbd/ranges-map.js';
import { seededRandom } from '../../support/random.js';
import { temporaryDirectory } from '../../support/temporary.js';

interface Range {
  offset: bigint;
  size: bigint;
}

async function* batches(ranges: readonly Range[]): AsyncGenerator<readonly Range[]> {
  const half = Math.ceil(ranges.length / 2);
  yield ranges.slice(0, half);
  yield ranges.slice(half);
}

/** The ranges of a device of this size that QEMU finds in the map, joined. */
function foundIn(path: string, sizeBytes: bigint): Range[] {
  const size = Number(sizeBytes);
  const node = {
    driver: 'qcow2',
    file: { driver: 'file', filename: path },
    'data-file': { driver: 'null-co', size },
    backing: { driver: 'null-co', size },
  };
  const listed = execFileSync('qemu-img', ['map', '--output=json', `json:${JSON.stringify(node)}`], {
    encoding: 'utf8',
  });
  const found: Range[] = [];
  for (const { start, length, depth } of JSON.parse(listed) as Record<'start' | 'length' | 'depth', number>[]) {
    if (depth === 0) addTo(found, { offset: BigInt(start), size: BigInt(length) });
  }
  return found;
}

function addTo(ranges: Range[], { offset, size }: Range): void {
  const last = ranges.at(-1);
  if (last === undefined || last.offset + last.size < offset) ranges.push({ offset, size });
  else last.size = offset + size - last.offset;
}

test('QEMU finds the ranges of a map, rounded outwards to its unit and cut at the end of the device', async () => {
  const random = seededRandom('maps');
  const directory = temporaryDirectory();
  for (const [index, unitBytes] of [4096n, 4096n, 16_384n, 65_536n, 65_536n].entries()) {
    // Tables of small units are for 1 GiB.
    const sizeBytes = (5n << 30n) + 512n * BigInt(random.below(300));
    const ranges: Range[] = [];
    const expected: Range[] = [];
    let at = BigInt(random.below(2) * 512 * random.below(2000));
    while (at < sizeBytes) {
      const wanted = 512n * BigInt(1 + random.below(random.pick([8, 300, 4_000_000])));
      const size = at + wanted < sizeBytes ? wanted : sizeBytes - at;
      ranges.push({ offset: at, size });
      const start = (at / unitBytes) * unitBytes;
      const end = ((at + size + unitBytes - 1n) / unitBytes) * unitBytes;
      addTo(expected, { offset: start, size: (end < sizeBytes ? end : sizeBytes) - start });
      at += size + 512n * BigInt(1 + random.below(random.pick([8, 300, 1_000_000])));
    }
    const path = join(directory, `${index}.map`);
    const file = await open(path, 'wx');
    const bytes = await writeMap(file, batches(ranges), { sizeBytes, unitBytes });
    await file.close();
    assert.deepEqual(foundIn(path, sizeBytes), expected, `units of ${unitBytes}`);
    assert.equal(
      bytes,
      expected.reduce((sum, { size }) => sum + size, 0n),
    );
  }
});

test('a map of a large device takes space for its ranges alone', async () => {
  const path = join(temporaryDirectory(), 'large.map');
  const sizeBytes = 12n << 40n;
  const ranges = [0n, 7n << 40n, sizeBytes - 4096n].map((offset) => ({ offset, size: 4096n }));
  const file = await open(path, 'wx');
  await writeMap(file, batches(ranges), { sizeBytes, unitBytes: 4096n });
  const { blocks } = await file.stat();
  await file.close();
  assert.deepEqual(foundIn(path, sizeBytes), ranges);
  assert.ok(blocks * 512 < 1 << 20, `${blocks * 512} bytes`);
});
