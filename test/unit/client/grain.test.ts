import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GrainMerger, parseGrain } from '../../../src/client/grain.js';
import type { Entry } from '../../../src/client/list.js';
import { seededRandom } from '../../support/random.js';

const range = (offset: number, size: number): Entry => ({
  offset: BigInt(offset),
  size: BigInt(size),
});

function merged(entries: readonly Entry[], grain: bigint, capacity: bigint): Entry[] {
  const merger = new GrainMerger(grain);
  return [...entries.flatMap((entry) => merger.add([entry], capacity)), ...merger.finish()];
}

test('ranges are rounded outwards, merged where they touch, cut off at the end, and counted', () => {
  const merger = new GrainMerger(16_384n);
  const list = [range(4096, 4096), range(20_480, 4096), range(98_304, 1024)];
  const found = [...merger.add(list, 100_000n), ...merger.finish()];
  assert.deepEqual(found, [range(0, 32_768), range(98_304, 1696)]);
  assert.deepEqual(merger.cost, {
    ...{ ranges: 3, bytes: 9216n, mergedRanges: 2, mergedBytes: 34_464n },
  });
});

test('the chunks of the merged list are those that the list touches', () => {
  const random = seededRandom('grain');
  for (let round = 0; round < 200; round += 1) {
    const grain = 512 << random.below(6);
    const capacity = 1 + random.below(200_000);
    const list: Entry[] = [];
    for (let at = random.below(5000); at < capacity; at += 1 + random.below(9000)) {
      const size = Math.min(1 + random.below(6000), capacity - at);
      list.push(range(at, size));
      at += size;
    }
    const touched = new Set<number>();
    for (const { offset, size } of list) {
      const last = Number(offset + size - 1n);
      for (let at = Math.floor(Number(offset) / grain); at <= last / grain; at += 1)
        touched.add(at);
    }
    const found = new Set<number>();
    const result = merged(list, BigInt(grain), BigInt(capacity));
    result.forEach(({ offset, size }, index) => {
      assert.equal(Number(offset) % grain, 0);
      const before = result[index - 1];
      assert.ok(before === undefined || before.offset + before.size < offset, 'not merged');
      assert.ok(Number(offset + size) <= capacity);
      for (let at = Number(offset); at < Number(offset + size); at += grain) found.add(at / grain);
    });
    assert.deepEqual(found, touched);
  }
});

test('a grain is a multiple of 512 bytes, with or without a unit', () => {
  const sizes = ['512', '65536', '64Ki', '64k', '1Mi', '1MiB', '1G'];
  assert.deepEqual(sizes.map(parseGrain), [
    512n,
    65_536n,
    65_536n,
    65_536n,
    1n << 20n,
    1n << 20n,
    1n << 30n,
  ]);
  for (const wrong of ['', '0', '100', '2Gi', '-512', '64Ti', 'Ki', '1.5Mi']) {
    assert.equal(parseGrain(wrong), null, wrong);
  }
});
