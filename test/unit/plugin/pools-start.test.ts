/** How a start waits for its pools, which fail and hang in turn. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import type { Backend } from '../../../src/driver/backends/backend.js';
import { startAll } from '../../../src/driver/plugin/pools-start.js';

const backend = (pool: string): Backend => ({ pool }) as Backend;

/** Pools that start, hang until they are let go, and fail, and how often each was begun. */
class Pools {
  readonly begun: string[] = [];
  letGo: () => void = () => undefined;
  readonly #hanging = new Promise<void>((resolve) => {
    this.letGo = resolve;
  });

  starters(...pools: readonly string[]) {
    return new Map(pools.map((pool) => [pool, () => this.#start(pool)]));
  }

  async #start(pool: string): Promise<Backend> {
    this.begun.push(pool);
    if (pool === 'hangs') await this.#hanging;
    if (pool === 'fails') throw CsiError.failedPrecondition('it fails');
    return backend(pool);
  }
}

test('a start waits a while for a pool that does not answer, and serves those that do', {
  timeout: 60_000,
}, async () => {
  const pools = new Pools();
  const { registry } = await startAll(pools.starters('hangs', 'fails', 'starts'), 20);
  assert.deepEqual(
    registry.all.map(({ pool }) => pool),
    ['starts'],
  );
  const failures = registry.unavailable.map(({ pool, failure }) => [pool, failure.code]);
  assert.deepEqual(failures, [
    ['hangs', StatusCode.UNAVAILABLE],
    ['fails', StatusCode.FAILED_PRECONDITION],
  ]);
});

test('the attempt at a pool that does not answer goes on, and is the next one', async () => {
  const pools = new Pools();
  const { startAgain } = await startAll(pools.starters('hangs', 'starts'), 20);
  const joined = startAgain('hangs');
  pools.letGo();
  assert.equal((await joined).pool, 'hangs');
  assert.deepEqual(pools.begun, ['hangs', 'starts']);
  await startAgain('hangs');
  assert.deepEqual(pools.begun, ['hangs', 'starts', 'hangs']);
});

test('a pool that does not answer is waited for while no other one has started', async () => {
  const pools = new Pools();
  const started = startAll(pools.starters('hangs', 'fails'), 1);
  const first = await Promise.race([started, new Promise((resolve) => setTimeout(resolve, 50))]);
  assert.equal(first, undefined);
  pools.letGo();
  const { registry } = await started;
  assert.deepEqual(
    registry.all.map(({ pool }) => pool),
    ['hangs'],
  );
});
