/** Axes: every figure lies within the range, and ticks are round numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { linear, logarithmic, tickLabel } from '../../../src/bench/report/scale.js';
import { seededRandom } from '../../support/random.js';

test('figures of any size lie within the range, in their order', () => {
  const random = seededRandom('bench scale');
  for (let round = 0; round < 2000; round += 1) {
    const values = Array.from(
      { length: 1 + random.below(5) },
      () => (1 + random.below(9999)) * 10 ** (random.below(14) - 8),
    );
    for (const scale of [linear(values, 100, 900), logarithmic(values, 100, 900)]) {
      for (const value of [...values, ...scale.ticks]) {
        assert.ok(
          scale.at(value) >= 99.9 && scale.at(value) <= 900.1,
          `${values}: ${value} at ${scale.at(value)}`,
        );
      }
      assert.ok(scale.ticks.length >= 2 && scale.ticks.length <= 20, `${values}: ${scale.ticks}`);
    }
  }
});

test('a logarithmic axis ends at round numbers next to its figures', () => {
  const { ticks, at } = logarithmic([1, 16], 0, 100);
  assert.deepEqual(ticks, [1, 2, 5, 10, 20]);
  assert.equal(at(1), 0);
  assert.equal(at(20), 100);
  assert.deepEqual(logarithmic([1e4, 1e7], 0, 100).ticks.map(tickLabel), [
    '10 k',
    '20 k',
    '50 k',
    '100 k',
    '200 k',
    '500 k',
    '1 M',
    '2 M',
    '5 M',
    '10 M',
  ]);
});

test('figures at or below zero stand at the lower end of a logarithmic axis', () => {
  assert.equal(logarithmic([-3, 0, 5, 10], 0, 100).at(-3), 0);
  assert.ok(Number.isFinite(logarithmic([0], 0, 100).at(0)));
});
