/** A list put together from the messages of one stream or, after interruptions, of several. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MetadataMessage } from '../../../src/client/connection.js';
import { InvalidListError, MetadataList } from '../../../src/client/list.js';

const CAPACITY = 1000;

type Rows = [number, number][];

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

/** `0+10 20+10`: rows of offset and size. */
const rowsOf = (text: string): Rows =>
  text.split(' ').flatMap((row): Rows => {
    const [offset, size] = row.split('+').map(Number);
    return offset === undefined || size === undefined ? [] : [[offset, size]];
  });

/** Messages are divided by `,`, streams, as after an interruption, by `|`. A message may have another type and capacity. */
function listOf(text: string, startingOffset = 0, type = 'VARIABLE_LENGTH'): string {
  const list = new MetadataList(BigInt(startingOffset));
  const entries = text.split('|').flatMap((stream, index) => {
    if (index > 0) list.resume();
    return stream.split(',').flatMap((each) => {
      const [rows = '', capacity = CAPACITY, own = type] = each.trim().split('/');
      return list.accept(message(rowsOf(rows.trim()), Number(capacity), own));
    });
  });
  return [...entries, ...list.finish()].map(({ offset, size }) => `${offset}+${size}`).join(' ');
}

test('an uninterrupted list is unchanged, including adjacent entries', () => {
  assert.equal(listOf('0+10, , 10+10 30+5 995+5'), '0+10 10+10 30+5 995+5');
  assert.equal(listOf(''), '');
});

test('a range split by interruptions is merged again, without what is known of it', () => {
  assert.equal(listOf('0+10 | 10+20, 30+5'), '0+30 30+5');
  assert.equal(listOf('0+10 | 10+10 | 20+10'), '0+30');
  // A server that reports in steps of 16 repeats the step in which the cut was.
  assert.equal(listOf('0+10 | 0+32'), '0+32');
  assert.equal(listOf('0+10 | , 4+28'), '0+32');
});

test('blocks of fixed length are never merged', () => {
  assert.equal(listOf('0+10 | 10+10', 0, 'FIXED_LENGTH'), '0+10 10+10');
});

test('the first range of the list may begin before the requested offset', () => {
  assert.equal(listOf('40+20', 50), '40+20');
});

test('another stream starts where the last entry ended', () => {
  const list = new MetadataList(5n);
  for (const [rows, position, isComplete] of [
    ['', 5n, false],
    ['0+10', 10n, false],
    ['', 10n, false],
    ['990+10', 1000n, true],
  ] as const) {
    list.accept(message(rowsOf(rows)));
    assert.deepEqual([list.position, list.isComplete], [position, isComplete]);
  }
});

const VIOLATIONS: readonly [what: string, list: string, found: RegExp, startingOffset?: number][] =
  [
    ['goes back', '10+5, 0+5', /out of order/],
    ['overlaps itself', '0+10 9+5', /out of order/],
    ['repeats an entry', '0+10 0+10', /out of order/],
    ['holds an empty range', '0+0', /0 bytes at 0/],
    ['reaches behind the end of the volume', '995+6', /6 bytes at 995/],
    ['changes its capacity', '0+5, 5+5/999', /capacity changed/],
    ['changes its capacity across a cut', '0+5 | /999', /capacity/],
    ['changes its type', '0+5, /1000/FIXED_LENGTH', /type/],
    ['starts again after a cut', '0+10 20+10 | 0+10', /from 30/],
    ['is empty, of a volume of negative size', '/-4096', /a volume of -4096 bytes/],
    ['ends before the requested offset', '0+50', /requested from 50/, 50],
  ];

test('a list that breaks a rule is refused', () => {
  for (const [what, list, message, startingOffset] of VIOLATIONS) {
    assert.throws(
      () => listOf(list, startingOffset),
      (error) => error instanceof InvalidListError && message.test(error.message),
      what,
    );
  }
});
