/** What `bench compare` counts as a change. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, hodgesLehmann, lowestP, mannWhitney } from '../../../src/bench/compare.js';
import { Random } from '../../../src/bench/random.js';
import type { Row } from '../../../src/bench/row.js';
import { report, row, targetRow } from '../../support/bench-report.js';
import { seededRandom } from '../../support/random.js';

const PEER = [10, 10, 10, 10, 10];
const before = [5, 5.1, 5.2, 4.9, 5.05];

function changeOf(a: Row, b: Row): string | undefined {
  return compare(report([a]), report([b]))[0]?.change;
}

test('the probability is that of all orders of the rounds being equally likely', () => {
  // All of A below all of B: 2 of the 252 ways to pick five of ten.
  assert.equal(mannWhitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252);
  assert.equal(lowestP(5, 5), 2 / 252);
  // U = 1: one more order on each side.
  assert.equal(mannWhitney([1, 2, 3, 4, 6], [5, 7, 8, 9, 10]), 4 / 252);
  assert.equal(mannWhitney([1, 2, 3], [1, 2, 3]), 1);
  assert.equal(mannWhitney([1, 3, 5, 7, 9], [2, 4, 6, 8, 10]) > 0.5, true);
});

test('the shift is the median of all differences', () => {
  assert.equal(hodgesLehmann([1, 2, 3], [11, 12, 13]), 10);
  assert.equal(hodgesLehmann([1, 2, 300], [11, 12, 13]), 10);
});

test('rounds that lie apart by more than the smallest change are better or worse', () => {
  const slower = before.map((ms) => ms * 1.2);
  assert.equal(changeOf(row('a', before, PEER), row('a', slower, PEER)), 'worse');
  assert.equal(changeOf(row('a', slower, PEER), row('a', before, PEER)), 'better');
  const rate: Partial<Row> = { better: 'higher' };
  assert.equal(changeOf(row('a', before, PEER, rate), row('a', slower, PEER, rate)), 'better');
});

test('a slower machine is no change when the peer is slower as well', () => {
  const a = row('a', before, PEER);
  const b = row(
    'a',
    before.map((ms) => ms * 2),
    PEER.map((ms) => ms * 2),
  );
  assert.equal(changeOf(a, b), 'same');
});

test('rounds that overlap, and small shifts, are the same', () => {
  assert.equal(changeOf(row('a', before, PEER), row('a', [4.9, 5.6, 5.7, 5.8, 5.9], PEER)), 'same');
  assert.equal(
    changeOf(
      row('a', before, PEER),
      row(
        'a',
        before.map((ms) => ms + 0.2),
        PEER,
      ),
    ),
    'same',
  );
});

test('a target of at least a bound gets worse when the figure falls', () => {
  const lower = before.map((each) => each / 2);
  const [a, b] = [before, lower].map((ours) => targetRow('io-random-write', ours, PEER)) as [
    Row,
    Row,
  ];
  assert.equal(changeOf(a, b), 'worse');
});

test('three rounds cannot show a change', () => {
  assert.equal(
    changeOf(row('a', [1, 2, 3], [1, 1, 1]), row('a', [11, 12, 13], [1, 1, 1])),
    'too few rounds',
  );
});

test('rows of one report alone are named', () => {
  const changes = compare(report([row('a', before, PEER)]), report([row('b', before, PEER)]));
  assert.deepEqual(
    changes.map(({ name, change }) => [name, change]),
    [
      ['a', 'only in A'],
      ['b', 'only in B'],
    ],
  );
});

test('of rows that did not change, about one in a hundred is reported at five rounds', () => {
  const random = new Random(seededRandom('bench compare').below(2 ** 31));
  const noise = (): number[] => Array.from({ length: 5 }, () => 5 * (1 + random.unit()));
  let changed = 0;
  const runs = 3000;
  for (let run = 0; run < runs; run += 1) {
    const change = changeOf(row('a', noise(), PEER), row('a', noise(), PEER));
    if (change !== 'same') changed += 1;
  }
  assert.ok(changed / runs < 0.02, `${changed} of ${runs}`);
});
