import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from '../../../src/bench/random.js';
import { quantile, spread } from '../../../src/bench/statistics.js';
import { shuffledRounds } from '../../../src/bench/suite.js';

test('the median of an even number of figures lies between the two in the middle', () => {
  assert.deepEqual(spread([4, 1, 3, 2]), { median: 2.5, min: 1, max: 4 });
  assert.deepEqual(spread([7]), { median: 7, min: 7, max: 7 });
  assert.ok(Number.isNaN(spread([]).median));
});

test('quantiles interpolate between neighbours', () => {
  const figures = Array.from({ length: 101 }, (_, index) => 100 - index);
  assert.equal(quantile(figures, 0.99), 99);
  assert.equal(quantile([0, 10], 0.25), 2.5);
});

test('each contender runs once in each round, and the same seed repeats the order', async () => {
  const orders = [];
  for (const seed of [5, 5, 6]) {
    const order: string[] = [];
    const found = await shuffledRounds(
      { rounds: 20, random: new Random(seed) },
      ['a', 'b', 'c'],
      async (contender, round) => {
        order.push(contender);
        return round;
      },
    );
    for (const figures of found.values()) {
      assert.deepEqual(
        figures,
        Array.from({ length: 20 }, (_, round) => round),
      );
    }
    for (let round = 0; round < 20; round += 1) {
      assert.deepEqual(order.slice(round * 3, round * 3 + 3).sort(), ['a', 'b', 'c']);
    }
    orders.push(order.join(''));
  }
  assert.equal(orders[0], orders[1]);
  assert.notEqual(orders[0], orders[2]);
  assert.ok(new Set(orders[0]?.match(/.{3}/g)).size > 1, 'the order of contenders changes');
});
