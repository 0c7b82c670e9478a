/**
 * A replica plus a list is the snapshot: snapshots of a pool of one file system become replicas in a pool of another. The calls
 * between nodes are left out. Thin pools do the same in the guest (test/guest/thin-replicas.test.ts).
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Backend } from '../../../src/driver/backends/backend.js';
import { ReflinkPool } from '../../backend/reflink-fixture.js';
import { pullHistory } from '../../support/pulled-history.js';
import { type PoolKind, skipUnlessRoot } from '../../support/workspace.js';

const ROUNDS = 6;

const pools: ReflinkPool[] = [];
after(async () => {
  for (const pool of pools) await pool.dispose();
});

async function openPool(label: string, kind: PoolKind): Promise<{ pool: ReflinkPool; backend: Backend }> {
  const pool = new ReflinkPool();
  pools.push(pool);
  pool.make(label, kind);
  return { pool, backend: await pool.open({ changeLists: true }) };
}

for (const [kind, other] of [
  ['xfs', 'btrfs'],
  ['btrfs', 'xfs-1k'],
] as const) {
  test(`snapshots on ${kind} become the same replicas on ${other}, also from deleted bases and after growth`, {
    skip: skipUnlessRoot,
  }, async (t) => {
    const source = await openPool(`source-${kind}`, kind);
    const target = await openPool(`target-${other}`, other);
    const { pieces, copiedBytes } = await pullHistory(`replicas of ${kind} on ${other}`, {
      source: source.backend,
      target: target.backend,
      native: source.pool.native,
      directory: target.pool.workspace.directory,
      rounds: ROUNDS,
      discardGranularity: 4096,
    });
    t.diagnostic(`${pieces} pieces, ${copiedBytes} bytes copied`);
    assert.ok(pieces > ROUNDS);
  });
}
