import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../../src/driver/backends/backend.js';
import { RetentionTimer } from '../../../src/driver/volumes/retention-timer.js';
import { eventually } from '../../support/eventually.js';

test('the bases of each pool are reviewed again and again, also when one of them fails, until the timer is stopped', async () => {
  const pools = ['failing', 'sound'].map((pool) => ({ pool }) as Backend);
  const reviewed: string[] = [];
  const failures: unknown[] = [];
  const timer = new RetentionTimer({
    pools: () => pools,
    retainedBases: {
      reviewIfDue: async ({ pool }) => {
        reviewed.push(pool);
        if (pool === 'failing') throw new Error('the disk is away');
      },
    },
    logger: { warn: (fields: object) => void failures.push(fields) } as never,
    intervalMs: 1,
  });
  timer.start();
  await eventually('both are reviewed twice', () => reviewed.length >= 4);
  await timer.stop();
  const { length } = reviewed;
  assert.deepEqual(reviewed.slice(0, 4), ['failing', 'sound', 'failing', 'sound']);
  assert.equal(failures.length, reviewed.filter((pool) => pool === 'failing').length);
  timer.start();
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(reviewed.length, length);
});
