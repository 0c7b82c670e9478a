import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../../src/driver/backends/backend.js';
import { RetentionTimer } from '../../../src/driver/volumes/retention-timer.js';
import { eventually } from '../../support/eventually.js';

test('each pool is settled again and again, also when one of them fails, until the timer is stopped', async () => {
  const pools = ['failing', 'sound'].map((pool) => ({ pool }) as Backend);
  const settled: string[] = [];
  const failures: unknown[] = [];
  const timer = new RetentionTimer({
    pools: () => pools,
    retainedBases: {
      settleIfDue: async ({ pool }) => {
        settled.push(pool);
        if (pool === 'failing') throw new Error('the disk is away');
      },
    },
    logger: { warn: (fields: object) => void failures.push(fields) } as never,
    intervalMs: 1,
  });
  timer.start();
  await eventually('both are settled twice', () => settled.length >= 4);
  await timer.stop();
  const { length } = settled;
  assert.deepEqual(settled.slice(0, 4), ['failing', 'sound', 'failing', 'sound']);
  assert.equal(failures.length, settled.filter((pool) => pool === 'failing').length);
  timer.start();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(settled.length, length);
});
