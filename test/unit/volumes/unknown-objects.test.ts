/** The list of objects without a row, as pools that come back add to it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Backend } from '../../../src/driver/backends/backend.js';
import { foundObjects, LostRows } from '../../../src/driver/volumes/unknown-objects.js';
import { temporaryDirectory } from '../../support/temporary.js';

test('pools that are searched at the same time all add what they hold', async () => {
  const directory = temporaryDirectory();
  const nothing = { ids: [], sizesBytes: new BigUint64Array() };
  const catalogue = {
    objectsIn: async () => ({ volumes: nothing, snapshots: nothing }),
    unknownAmong: async (ids: readonly string[]) => [...ids],
  };
  const lost = new LostRows(directory, catalogue, { recover: async () => false });
  const pools = Array.from({ length: 20 }, (_, index) => `pool-${index}`);
  const holding = (pool: string): Backend => {
    const volumes = [{ id: `vol-of-${pool}`, sizeBytes: 1n }];
    return { pool, list: async () => ({ volumes, snapshots: [], unknown: [] }) } as unknown as Backend;
  };

  await Promise.all(pools.map((pool) => lost.search([holding(pool)])));

  const expected = pools.map((pool) => ({ pool, id: `vol-of-${pool}` }));
  assert.deepEqual([...lost.objects], expected);
  assert.deepEqual(await foundObjects(directory), expected);
});
