/** The figures of the benchmark: what is drawn from rounds, what `bench compare` counts as a change, and the axes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare, hodgesLehmann, lowestP, mannWhitney } from '../../../src/tools/bench/compare.js';
import { linear, logarithmic, tickLabel } from '../../../src/tools/bench/report/scale.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { quantile, spread } from '../../../src/tools/bench/statistics.js';
import { shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Random } from '../../../src/tools/random.js';
import { report, row, targetRow } from '../../support/bench-report.js';
import { seededRandom } from '../../support/random.js';

const PEER = [10, 10, 10, 10, 10];
const before = [5, 5.1, 5.2, 4.9, 5.05];
const scaled = (by: number, figures = before): number[] => figures.map((each) => each * by);

function changeOf(a: Row, b: Row): string | undefined {
  return compare(report([a]), report([b]))[0]?.change;
}

test('medians and quantiles interpolate between neighbours', () => {
  assert.deepEqual(spread([4, 1, 3, 2]), { median: 2.5, min: 1, max: 4 });
  assert.deepEqual(spread([7]), { median: 7, min: 7, max: 7 });
  assert.ok(Number.isNaN(spread([]).median));
  const figures = Array.from({ length: 101 }, (_, index) => 100 - index);
  assert.deepEqual([quantile(figures, 0.99), quantile([0, 10], 0.25)], [99, 2.5]);
});

test('each contender runs once in each round, and the same seed repeats the order', async () => {
  const orders = [];
  for (const seed of [5, 5, 6]) {
    const order: string[] = [];
    const rounds = { rounds: 20, random: new Random(seed) };
    const found = await shuffledRounds(rounds, ['a', 'b', 'c'], async (contender, round) => {
      order.push(contender);
      return round;
    });
    for (const figures of found.values()) assert.deepEqual(figures, [...Array(20).keys()]);
    const each = order.join('').match(/.{3}/g) ?? [];
    assert.ok(each.every((names) => [...names].sort().join('') === 'abc'));
    assert.ok(new Set(each).size > 1, 'the order of contenders changes');
    orders.push(order.join(''));
  }
  assert.deepEqual([orders[0] === orders[1], orders[0] === orders[2]], [true, false]);
});

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

const of = (rounds: number[], peer = PEER, rest: Partial<Row> = {}) => row('a', rounds, peer, rest);
const higher = (rounds: number[]) => of(rounds, PEER, { better: 'higher' });
const bounded = (rounds: number[]) => targetRow('io-random-write', rounds, PEER);
const CHANGES: readonly [what: string, a: Row, b: Row, change: string][] = [
  ['slower', of(before), of(scaled(1.2)), 'worse'],
  ['faster', of(scaled(1.2)), of(before), 'better'],
  ['more, where more is better', higher(before), higher(scaled(1.2)), 'better'],
  ['slower, as is the peer, on a slower machine', of(before), of(scaled(2), scaled(2, PEER)), 'same'],
  ['rounds that overlap', of(before), of([4.9, 5.6, 5.7, 5.8, 5.9]), 'same'],
  ['a small shift', of(before), of(scaled(1.04)), 'same'],
  ['below a target of at least a bound', bounded(before), bounded(scaled(0.5)), 'worse'],
  ['of three rounds', of([1, 2, 3], [1, 1, 1]), of([11, 12, 13], [1, 1, 1]), 'too few rounds'],
];
for (const [what, a, b, change] of CHANGES) {
  test(`figures that are ${what} are a change: ${change}`, () => {
    assert.equal(changeOf(a, b), change);
  });
}

test('rows of one report alone are named', () => {
  const changes = compare(report([row('a', before, PEER)]), report([row('b', before, PEER)]));
  const found = changes.map(({ name, change }) => `${name} ${change}`);
  assert.deepEqual(found, ['a only in A', 'b only in B']);
});

test('of rows that did not change, about one in a hundred is reported at five rounds', () => {
  const random = new Random(seededRandom('bench compare').below(2 ** 31));
  const noise = (): number[] => Array.from({ length: 5 }, () => 5 * (1 + random.unit()));
  let changed = 0;
  const runs = 3000;
  for (let run = 0; run < runs; run += 1) {
    const change = changeOf(of(noise()), of(noise()));
    if (change !== 'same') changed += 1;
  }
  assert.ok(changed / runs < 0.02, `${changed} of ${runs}`);
});

test('figures of any size lie within the range of an axis, in their order', () => {
  const random = seededRandom('bench scale');
  for (let round = 0; round < 2000; round += 1) {
    const values = Array.from(
      { length: 1 + random.below(5) },
      () => (1 + random.below(9999)) * 10 ** (random.below(14) - 8),
    );
    for (const scale of [linear(values, 100, 900), logarithmic(values, 100, 900)]) {
      for (const value of [...values, ...scale.ticks]) {
        const at = scale.at(value);
        assert.ok(at >= 99.9 && at <= 900.1, `${values}: ${value} at ${at}`);
      }
      assert.ok(scale.ticks.length >= 2 && scale.ticks.length <= 20, `${values}: ${scale.ticks}`);
    }
  }
});

test('a logarithmic axis ends at round numbers next to its figures, and has those at or below zero', () => {
  const { ticks, at } = logarithmic([1, 16], 0, 100);
  assert.deepEqual([ticks, at(1), at(20)], [[1, 2, 5, 10, 20], 0, 100]);
  const labels = logarithmic([1e4, 1e7], 0, 100).ticks.map(tickLabel);
  assert.equal(labels.join(', '), '10 k, 20 k, 50 k, 100 k, 200 k, 500 k, 1 M, 2 M, 5 M, 10 M');
  assert.deepEqual(logarithmic([20_020], 0, 100).ticks, [20_000, 50_000]);
  assert.equal(logarithmic([-3, 0, 5, 10], 0, 100).at(-3), 0);
  assert.ok(Number.isFinite(logarithmic([0], 0, 100).at(0)));
});
