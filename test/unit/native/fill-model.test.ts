/** The scan itself on made-up extent maps: a table of pairs, and random maps against a model by bytes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { type FillRequest, loadAddon, type ScanSource } from '../../../src/native/addon.js';
import type { NativeFiller } from '../../../src/native/pool.js';
import type { Range } from '../../support/csi-client.js';
import {
  type Extent,
  expectedRanges,
  HARMLESS_FLAGS,
  OPAQUE_FLAGS,
  randomExtents,
  randomSuccessor,
  UNWRITTEN,
  words,
} from '../../support/extent-model.js';
import { type Random, seededRandom } from '../../support/random.js';
import { decodeFrames, scanAll } from '../../support/wire.js';

const addon = loadAddon();
const filler: NativeFiller = {
  fill: async (request, buffer) => ({ result: addon.fillMetadata(request, buffer), buffer }),
};

const extent = (logical: number, physical: number, length: number, flags = 0): Extent => ({
  logical,
  physical,
  length,
  flags,
});
const range = (offset: number, size: number): Range => ({
  offset: BigInt(offset),
  size: BigInt(size),
});

function sourceOf(sizeBytes: number, target: Extent[], base: Extent[] | null): ScanSource {
  return {
    kind: 'extents',
    sizeBytes: BigInt(sizeBytes),
    target: words(target),
    base: base === null ? null : words(base),
  };
}

interface Case {
  title: string;
  base: Extent[] | null;
  target: Extent[];
  expected: Range[];
}

const SIZE = 100;
const CASES: readonly Case[] = [
  { title: 'nothing is allocated', base: null, target: [], expected: [] },
  { title: 'nothing is in either', base: [], target: [], expected: [] },
  {
    title: 'all is allocated',
    base: null,
    target: [extent(0, 500, 100)],
    expected: [range(0, 100)],
  },
  {
    title: 'the same extent',
    base: [extent(0, 500, 100)],
    target: [extent(0, 500, 100)],
    expected: [],
  },
  {
    title: 'one extent cut in two that continue',
    base: [extent(0, 500, 100)],
    target: [extent(0, 500, 40), extent(40, 540, 60)],
    expected: [],
  },
  {
    title: 'the second half moved',
    base: [extent(0, 500, 100)],
    target: [extent(0, 500, 40), extent(40, 541, 60)],
    expected: [range(40, 60)],
  },
  {
    title: 'one byte changed in the middle',
    base: [extent(0, 500, 100)],
    target: [extent(0, 500, 50), extent(50, 900, 1), extent(51, 551, 49)],
    expected: [range(50, 1)],
  },
  {
    title: 'the address of a neighbour',
    base: [extent(0, 500, 100)],
    target: [extent(1, 500, 99)],
    expected: [range(0, 100)],
  },
  {
    title: 'data became a hole',
    base: [extent(10, 500, 20)],
    target: [],
    expected: [range(10, 20)],
  },
  {
    title: 'a hole became data',
    base: [],
    target: [extent(10, 500, 20)],
    expected: [range(10, 20)],
  },
  {
    title: 'preallocated for a hole',
    base: [],
    target: [extent(10, 500, 20, UNWRITTEN)],
    expected: [],
  },
  {
    title: 'preallocated, then written in place',
    base: [extent(10, 500, 20, UNWRITTEN)],
    target: [extent(10, 500, 20)],
    expected: [range(10, 20)],
  },
  {
    title: 'preallocated in both at other addresses',
    base: [extent(10, 500, 20, UNWRITTEN)],
    target: [extent(10, 700, 20, UNWRITTEN)],
    expected: [],
  },
  {
    title: 'preallocation is not allocated',
    base: null,
    target: [extent(10, 500, 20, UNWRITTEN)],
    expected: [],
  },
  {
    title: 'touching extents are one range',
    base: null,
    target: [extent(10, 500, 10), extent(20, 900, 10)],
    expected: [range(10, 20)],
  },
  {
    title: 'ranges one byte apart are two',
    base: null,
    target: [extent(10, 500, 10), extent(21, 900, 10)],
    expected: [range(10, 10), range(21, 10)],
  },
  {
    title: 'an extent behind the end',
    base: null,
    target: [extent(90, 500, 50)],
    expected: [range(90, 10)],
  },
  {
    title: 'an extent that starts behind the end',
    base: [extent(0, 500, 10)],
    target: [extent(0, 500, 10), extent(100, 600, 50)],
    expected: [],
  },
  {
    title: 'a base that is shorter',
    base: [extent(0, 500, 50)],
    target: [extent(0, 500, 100)],
    expected: [range(50, 50)],
  },
  {
    title: 'a base that is longer than the target',
    base: [extent(0, 500, 150)],
    target: [extent(0, 500, 100)],
    expected: [],
  },
];

for (const { title, base, target, expected } of CASES) {
  test(`the list is right when: ${title}`, async () => {
    const answer = await scanAll(filler, sourceOf(SIZE, target, base));
    assert.deepEqual(answer.ranges, expected);
    assert.deepEqual(expectedRanges(SIZE, target, base), expected, 'the model agrees');
    assert.equal(answer.capacity, BigInt(SIZE));
    assert.ok(answer.messages > 0, 'an empty list is a message too');
  });
}

test('an extent whose content the address does not prove is always reported', async () => {
  for (const flag of OPAQUE_FLAGS) {
    const same = [extent(10, 500, 20, flag)];
    const { ranges } = await scanAll(filler, sourceOf(SIZE, same, same));
    assert.deepEqual(ranges, [range(10, 20)], `flag 0x${flag.toString(16)}`);
    const both = [extent(10, 500, 20, flag | UNWRITTEN)];
    assert.deepEqual((await scanAll(filler, sourceOf(SIZE, both, both))).ranges, [range(10, 20)]);
    assert.deepEqual((await scanAll(filler, sourceOf(SIZE, both, null))).ranges, [range(10, 20)]);
    const opaqueBase = await scanAll(filler, sourceOf(SIZE, [extent(10, 500, 20)], same));
    assert.deepEqual(opaqueBase.ranges, [range(10, 20)], 'in the base alone');
    const gone = await scanAll(filler, sourceOf(SIZE, [], same));
    assert.deepEqual(gone.ranges, [range(10, 20)], 'gone from the target');
  }
});

test('flags that say nothing about content change nothing', async () => {
  for (const flag of HARMLESS_FLAGS) {
    const source = sourceOf(SIZE, [extent(10, 500, 20, flag)], [extent(10, 500, 20)]);
    assert.deepEqual((await scanAll(filler, source)).ranges, []);
  }
});

test('random maps give the list of the model, from any offset and in chunks of any size', async () => {
  const random = seededRandom('extent maps');
  for (let round = 0; round < 400; round += 1) {
    const sizeBytes = 1 + random.below(600);
    const base = random.below(5) === 0 ? null : randomExtents(random, sizeBytes);
    const target = base === null ? randomExtents(random, sizeBytes) : randomSuccessor(random, base);
    const start = random.below(3) === 0 ? random.below(sizeBytes + 1) : 0;
    const expected = expectedRanges(sizeBytes, target, base, start);
    const source = sourceOf(sizeBytes, target, base);
    const { ranges } = await scanAll(filler, source, { startingOffset: BigInt(start) });
    assert.deepEqual(ranges, expected, `round ${round}`);
    assert.deepEqual(inChunks(random, source, start), expected, `round ${round} in chunks`);
  }
});

/** The list by chunks of few entries and few extents, each asked for as the last one said. */
function inChunks(random: Random, source: ScanSource, start: number): Range[] {
  const ranges: Range[] = [];
  const buffer = new ArrayBuffer(4096);
  let request: FillRequest = {
    source,
    offset: BigInt(start),
    rangeStart: BigInt(start),
    maxEntries: 1 + random.below(5),
    maxEntriesPerMessage: 1 + random.below(3),
    maxExtents: 1 + random.below(6),
    sendEmpty: false,
  };
  for (let chunks = 0; chunks < 10_000; chunks += 1) {
    const result = addon.fillMetadata(request, buffer);
    assert.ok(result.ok, inspect(result));
    const messages = decodeFrames(new Uint8Array(buffer, 0, result.bytes));
    for (const message of messages) {
      assert.ok(message.ranges.length <= request.maxEntriesPerMessage);
      ranges.push(...message.ranges);
    }
    assert.ok(result.entries <= request.maxEntries);
    assert.equal(result.messages, messages.length);
    if (result.done) return ranges;
    assert.ok(result.nextOffset >= request.offset, 'a scan never goes back');
    assert.ok(result.nextRangeStart <= result.nextOffset);
    request = { ...request, offset: result.nextOffset, rangeStart: result.nextRangeStart };
  }
  throw new Error('the scan does not end');
}

test('the largest volume and extents at its end are written without loss', async () => {
  const sizeBytes = 2n ** 63n - 4096n;
  const target = BigUint64Array.from([0n, 4096n, 1n, 0n, sizeBytes - 1n, 2n ** 62n, 1n, 0n]);
  const answer = await scanAll(filler, { kind: 'extents', sizeBytes, target, base: null });
  assert.equal(answer.capacity, sizeBytes);
  assert.deepEqual(answer.ranges, [
    { offset: 0n, size: 1n },
    { offset: sizeBytes - 1n, size: 1n },
  ]);
});

test('maps that no file system gives are refused, never guessed at', () => {
  const bad: Extent[][] = [
    [extent(10, 500, 0)],
    [extent(10, 500, 20), extent(5, 900, 2)],
    [extent(10, 500, 20), extent(20, 900, 20)],
  ];
  for (const target of bad) {
    const request: FillRequest = {
      source: sourceOf(SIZE, target, null),
      offset: 0n,
      rangeStart: 0n,
      maxEntries: 100,
      maxEntriesPerMessage: 100,
      maxExtents: 100,
      sendEmpty: true,
    };
    const result = addon.fillMetadata(request, new ArrayBuffer(4096));
    assert.ok(!result.ok, JSON.stringify(target));
    assert.equal(result.code, 'SCAN_MAP_INVALID');
  }
});

test('a full message is never larger than a client takes', async () => {
  const sizeBytes = 2n ** 62n;
  const source: ScanSource = {
    kind: 'pattern',
    sizeBytes,
    extentBytes: 2n ** 40n,
    strideBytes: 2n ** 46n,
  };
  const { ranges, messages } = await scanAll(filler, source, { maxResults: 100_000 });
  assert.equal(ranges.length, 65_536);
  assert.ok(messages >= 8);
});
