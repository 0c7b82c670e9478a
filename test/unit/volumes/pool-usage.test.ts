/** Pools that fill up and empty again: one line for each crossing, in both directions. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Backend, PoolCapacity } from '../../../src/driver/backends/backend.js';
import { PoolUsageLog } from '../../../src/driver/volumes/pool-usage.js';
import { eventually } from '../../support/eventually.js';
import { seededRandom } from '../../support/random.js';

const GIB = 1n << 30n;
const MIB = 1n << 20n;

const EMPTY: PoolCapacity = {
  totalBytes: 100n * GIB,
  freeBytes: 100n * GIB,
  reserveBytes: 0n,
  availableBytes: 0n,
  minimumVolumeBytes: 1n,
  granularityBytes: 1n,
};

/** A log of these pools, and its lines as `level: message`. */
function logOf(pools: Pick<Backend, 'pool' | 'capacity'>[], times: object) {
  const lines: string[] = [];
  const at = (level: string) => (_: object, message: string) => lines.push(`${level}: ${message}`);
  const logger = { info: at('info'), warn: at('warn'), error: at('error') } as never;
  return { lines, usage: new PoolUsageLog({ pools: () => pools, logger, ...times }) };
}

function watched(first: Partial<PoolCapacity>, intervalMs = 3_600_000) {
  let capacity = { ...EMPTY, ...first };
  const backend = { pool: 'p', capacity: async () => capacity };
  const { usage, lines } = logOf([backend], { intervalMs });
  const set = (next: Partial<PoolCapacity>) => {
    capacity = { ...capacity, ...next };
  };
  /** What the check logs when this much is used. */
  const used = async (percent: bigint): Promise<string[]> => {
    set({ freeBytes: (100n - percent) * GIB });
    return messages();
  };
  const messages = async (): Promise<string[]> => {
    await usage.check();
    return lines.splice(0);
  };
  return { usage, lines, set, used, messages };
}

test('each of 80, 90, 95 % and full is logged once on the way up and once on the way down', async () => {
  const { used } = watched({});
  assert.deepEqual(await used(79n), []);
  assert.match((await used(80n)).join(), /^warn: pool 'p' has used 80 % of its space: add space/);
  assert.deepEqual(await used(85n), []);
  assert.match((await used(90n)).join(), /^warn: .* 90 %/);
  assert.match((await used(95n)).join(), /^warn: .* 95 %/);
  assert.match((await used(100n)).join(), /^error: pool 'p' is out of space/);
  assert.deepEqual(await used(100n), []);
  assert.deepEqual(await used(99n), ["info: pool 'p' has space again"]);
  assert.deepEqual(await used(92n), ["info: pool 'p' is below 95 % of its space again"]);
  assert.deepEqual(await used(87n), ["info: pool 'p' is below 90 % of its space again"]);
  assert.deepEqual(await used(50n), ["info: pool 'p' is below 80 % of its space again"]);
});

test('a pool that hovers around a threshold is logged once', async () => {
  const { used } = watched({});
  assert.equal((await used(80n)).length, 1);
  for (const percent of [79n, 80n, 78n, 81n, 79n]) assert.deepEqual(await used(percent), []);
  assert.equal((await used(77n)).length, 1);
});

test('less than 4 MiB is full, and stays full until 8 MiB are free', async () => {
  const { set, messages } = watched({ freeBytes: 3n * MIB });
  assert.match((await messages()).join(), /out of space/);
  set({ freeBytes: 5n * MIB });
  assert.deepEqual(await messages(), []);
  set({ freeBytes: 9n * MIB });
  assert.match((await messages()).join(), /has space again/);
});

test('the metadata of a thin pool is watched alike', async () => {
  const metadata = { totalBytes: 100n * MIB, usedBytes: 91n * MIB };
  const { set, messages } = watched({ metadata });
  assert.match((await messages()).join(), /^warn: pool 'p' has used 90 % of its metadata: enlarge/);
  set({ metadata: { ...metadata, usedBytes: 10n * MIB } });
  assert.deepEqual(await messages(), ["info: pool 'p' is below 80 % of its metadata again"]);
});

test('lines alternate and never repeat, whatever a pool does', async () => {
  const random = seededRandom('pool usage');
  const { used } = watched({});
  let reached = 0;
  for (let step = 0; step < 2000; step += 1) {
    const percent = BigInt(random.below(101));
    const logged = await used(percent);
    assert.ok(logged.length <= 1);
    const rose = /has used (\d+) %|(out of)/.exec(logged[0] ?? '');
    if (rose === null) continue;
    const level = rose[1] === undefined ? 100 : Number(rose[1]);
    assert.ok(BigInt(level) <= percent);
    reached = Math.max(reached, level);
  }
  assert.equal(reached, 100);
});

test('checks repeat until the log is stopped', async () => {
  const { usage, lines, set } = watched({}, 5);
  await usage.start();
  set({ freeBytes: 0n });
  await eventually('the second check', () => lines.length === 1);
  await usage.stop();
  set({ freeBytes: 100n * GIB });
  await delay(30);
  assert.equal(lines.length, 1);
});

test('a pool that does not answer is asked once, and keeps neither a check nor the other pools', async () => {
  const dead = mock.fn(() => new Promise<PoolCapacity>(() => undefined));
  const sound = mock.fn(async () => ({ ...EMPTY, freeBytes: 0n }));
  const pools = Object.entries({ dead, sound }).map(([pool, capacity]) => ({ pool, capacity }));
  const { usage, lines } = logOf(pools, { answerMs: 10 });
  await usage.start();
  await usage.check();
  await usage.stop();
  assert.deepEqual([dead.mock.callCount(), sound.mock.callCount()], [1, 2]);
  assert.match(lines.join(), /^error: pool 'sound' is out of space/);
});
