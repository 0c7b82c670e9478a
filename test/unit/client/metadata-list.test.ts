import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MetadataMessage } from '../../../src/client/connection.js';
import { InvalidListError, MetadataList } from '../../../src/client/list.js';

const CAPACITY = 1000;

type Rows = readonly (readonly [number, number])[];

function message(rows: Rows, capacity = CAPACITY, type = 'VARIABLE_LENGTH'): MetadataMessage {
  return {
    block_metadata_type: type,
    volume_capacity_bytes: String(capacity),
    block_metadata: rows.map(([offset, size]) => ({
      byte_offset: String(offset),
      size_bytes: String(size),
    })),
  };
}

/** Feeds streams of messages one after the other, as after interruptions, and returns the whole list. */
function listOf(streams: readonly (readonly MetadataMessage[])[], startingOffset = 0): Rows {
  const list = new MetadataList(BigInt(startingOffset));
  const entries = streams.flatMap((messages, index) => {
    if (index > 0) list.resume();
    return messages.flatMap((each) => list.accept(each));
  });
  return [...entries, ...list.finish()].map(({ offset, size }) => [Number(offset), Number(size)]);
}

test('an uninterrupted list is unchanged, including adjacent entries', () => {
  const rows: Rows = [
    [0, 10],
    [10, 10],
    [30, 5],
    [995, 5],
  ];
  assert.deepEqual(
    listOf([[message(rows.slice(0, 1)), message([]), message(rows.slice(1))]]),
    rows,
  );
  assert.deepEqual(listOf([[message([])]]), []);
});

test('a range split by an interruption is merged again', () => {
  assert.deepEqual(listOf([[message([[0, 10]])], [message([[10, 20]]), message([[30, 5]])]]), [
    [0, 30],
    [30, 5],
  ]);
});

test('a range split by several interruptions is merged again', () => {
  const parts = [0, 10, 20].map((offset) => [message([[offset, 10]])]);
  assert.deepEqual(listOf(parts), [[0, 30]]);
});

test('after an interruption, the known part of the first range is left out', () => {
  // A server that reports in steps of 16 repeats the step in which the cut was.
  assert.deepEqual(listOf([[message([[0, 10]])], [message([[0, 32]])]]), [[0, 32]]);
  assert.deepEqual(listOf([[message([[0, 10]])], [message([]), message([[4, 28]])]]), [[0, 32]]);
});

test('blocks of fixed length are never merged', () => {
  const fixed = (rows: Rows): MetadataMessage => message(rows, CAPACITY, 'FIXED_LENGTH');
  assert.deepEqual(listOf([[fixed([[0, 10]])], [fixed([[10, 10]])]]), [
    [0, 10],
    [10, 10],
  ]);
});

test('the first range of the list may begin before the requested offset', () => {
  assert.deepEqual(listOf([[message([[40, 20]])]], 50), [[40, 20]]);
});

test('another stream starts where the last entry ended', () => {
  const list = new MetadataList(5n);
  assert.equal(list.position, 5n);
  list.accept(message([[0, 10]]));
  assert.equal(list.position, 10n);
  list.accept(message([]));
  assert.equal(list.position, 10n);
  assert.equal(list.isComplete, false);
  list.accept(message([[990, 10]]));
  assert.equal(list.isComplete, true);
});

const VIOLATIONS: readonly [string, readonly (readonly MetadataMessage[])[], RegExp][] = [
  ['goes back', [[message([[10, 5]]), message([[0, 5]])]], /out of order/],
  [
    'overlaps itself',
    [
      [
        message([
          [0, 10],
          [9, 5],
        ]),
      ],
    ],
    /out of order/,
  ],
  [
    'repeats an entry',
    [
      [
        message([
          [0, 10],
          [0, 10],
        ]),
      ],
    ],
    /out of order/,
  ],
  ['holds an empty range', [[message([[0, 0]])]], /0 bytes at 0/],
  ['reaches behind the end of the volume', [[message([[995, 6]])]], /6 bytes at 995/],
  ['changes its capacity', [[message([[0, 5]]), message([[5, 5]], 999)]], /capacity changed/],
  ['changes its capacity across a cut', [[message([[0, 5]])], [message([], 999)]], /capacity/],
  ['changes its type', [[message([[0, 5]]), message([], CAPACITY, 'FIXED_LENGTH')]], /type/],
  [
    'starts again after a cut',
    [
      [
        message([
          [0, 10],
          [20, 10],
        ]),
      ],
      [message([[0, 10]])],
    ],
    /from 30/,
  ],
];

for (const [what, streams, found] of VIOLATIONS) {
  test(`a list that ${what} is refused`, () => {
    assert.throws(
      () => listOf(streams),
      (error) => error instanceof InvalidListError && found.test(error.message),
    );
  });
}

test('an empty list of a volume of negative size is refused', () => {
  assert.throws(() => listOf([[message([], -4096)]]), /a volume of -4096 bytes/);
});

test('a list that ends before the requested offset is refused', () => {
  assert.throws(() => listOf([[message([[0, 50]])]], 50), /requested from 50/);
});
