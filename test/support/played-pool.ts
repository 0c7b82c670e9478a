/**
 * A thin pool on a played kernel with volumes v1 and v2 and a snapshot s0 of v1, for as long as a test
 * takes; its processes are started one after the other on one ledger.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SnapshotMember } from '../../src/backends/backend.js';
import { FakeThinKernel } from './fake-thin-kernel.js';
import { PlayedProcess } from './played-thin-pool.js';

/** Of all volumes, in bytes. */
export const PLAYED_SIZE = 1n << 20n;

/** Snapshots sN of the volumes vN. */
export function membersOf(...numbers: string[]): SnapshotMember[] {
  return numbers.map((id) => ({ volumeId: `v${id}`, snapshotId: `s${id}` }));
}

export class PlayedPool {
  readonly kernel = new FakeThinKernel();
  readonly #directory = mkdtempSync(join(tmpdir(), 'blockdelta-played-pool-'));
  #process: PlayedProcess | null = null;

  static async use(work: (pool: PlayedPool) => Promise<void>): Promise<void> {
    const pool = new PlayedPool();
    try {
      const { volumes, snapshots } = pool.start();
      for (const id of ['v1', 'v2']) await volumes.create(id, PLAYED_SIZE);
      await snapshots.create([{ volumeId: 'v1', snapshotId: 's0' }]);
      await work(pool);
    } finally {
      pool.#process?.ledger.close();
      rmSync(pool.#directory, { recursive: true });
    }
  }

  start(patienceMs?: number): PlayedProcess {
    this.#process?.ledger.close();
    this.#process = PlayedProcess.start(this.kernel, this.#directory, patienceMs);
    return this.#process;
  }

  /** Ids of the thin devices that exist, by what the ledger says they are. */
  assertAgreement(process: PlayedProcess): string[] {
    const { ledger } = process;
    assert.equal(ledger.openTransaction(), null);
    assert.equal(ledger.pool().transactionId, this.kernel.transactionId);
    const devices = ledger.devices();
    const known = devices.map(({ deviceId, madeAt }) => [deviceId, madeAt]);
    const found = [...this.kernel.thin.values()].map((one) => [one.deviceId, one.transactionId]);
    assert.deepEqual(found.sort(), known.sort());
    assert.equal(this.kernel.heldRoot, null);
    return devices.map(({ objectId }) => objectId).sort();
  }
}
