import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TransferPlanner } from '../../../src/base/transfer-plan.js';

const KIB = 1024n;
const MIB = 1n << 20n;

function planFor(ranges: Iterable<readonly [bigint, bigint]>) {
  const planner = new TransferPlanner();
  for (const [offset, size] of ranges) planner.add(offset, size);
  return planner.plan();
}

/** `count` ranges of `size`, one in every `stride`. */
function* spaced(count: number, size: bigint, stride: bigint): Generator<readonly [bigint, bigint]> {
  for (let index = 0n; index < BigInt(count); index += 1n) yield [index * stride, size];
}

test('the plan of a transfer has the largest requests, past the page cache, for one large range', () => {
  assert.deepEqual(planFor([[0n, 8192n * MIB]]), {
    requestSize: 1 << 20,
    bytes: 8192n * MIB,
    requests: 8192n,
    cache: 'none',
  });
});

test('the plan has requests of the size of the ranges if that stores no byte more, past the cache from 256 KiB on', () => {
  for (const [size, cache] of [
    [4n * KIB, 'writeback'],
    [64n * KIB, 'writeback'],
    [128n * KIB, 'writeback'],
    [256n * KIB, 'none'],
    [MIB, 'none'],
  ] as const) {
    assert.deepEqual(planFor(spaced(1000, size, 4n * MIB)), {
      requestSize: Number(size),
      bytes: 1000n * size,
      requests: 1000n,
      cache,
    });
  }
});

test('the plan joins blocks that stand close together', () => {
  const plan = planFor(spaced(8000, 4n * KIB, 8n * KIB));
  assert.ok(plan.requestSize > 4096, `requests of ${plan.requestSize} bytes`);
});

test('the plan counts a request once that several ranges touch, and one that a range touches in part', () => {
  const plan = planFor([
    [512n, 512n],
    [2048n, 512n],
    [4095n, 2n],
  ]);
  assert.deepEqual(plan, { requestSize: 8192, bytes: 8192n, requests: 1n, cache: 'writeback' });
});

test('an empty list has a plan', () => {
  assert.equal(planFor([]).bytes, 0n);
});
