/**
 * The rooms of a thin pool on a played kernel and a real ledger, and a process that is killed at any
 * step: a call of the kernel or of the ledger that never happens, or whose answer is never seen.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SnapshotMember } from '../../src/backends/backend.js';
import type { ThinKeptBases } from '../../src/backends/thin/bookmarks/bookmarks.js';
import type { AsyncLedger, Ledger } from '../../src/backends/thin/ledger/ledger.js';
import { openSqliteLedger } from '../../src/backends/thin/ledger/sqlite-ledger.js';
import { MetadataLook } from '../../src/backends/thin/metadata/metadata-reader.js';
import { PoolNames } from '../../src/backends/thin/pool/pool-names.js';
import { PoolTransactions } from '../../src/backends/thin/pool/pool-transaction.js';
import { ThinPool } from '../../src/backends/thin/pool/thin-pool.js';
import { ThinCuts } from '../../src/backends/thin/thin-copies.js';
import { ThinSnapshots } from '../../src/backends/thin/thin-snapshots.js';
import { ThinVolumes } from '../../src/backends/thin/thin-volumes.js';
import { VolumeDevices } from '../../src/backends/thin/volume-devices.js';
import { PoolQueue } from '../../src/base/serial-queue.js';
import { FakeThinKernel } from './fake-thin-kernel.js';

export class Killed extends Error {}

/** Counts the steps of one process, and ends it at one of them. */
export class Steps {
  #left = Number.POSITIVE_INFINITY;
  #when: 'before' | 'after' = 'before';
  #isDead = false;

  killAt(step: number, when: 'before' | 'after'): void {
    this.#left = step;
    this.#when = when;
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  begin(): void {
    if (this.#left === 0 && this.#when === 'before') this.#isDead = true;
    this.#assertAlive();
  }

  end(): void {
    if (this.#left === 0) this.#isDead = true;
    this.#left -= 1;
    this.#assertAlive();
  }

  #assertAlive(): void {
    if (this.#isDead) throw new Killed('this process was killed');
  }
}

/** One process that works with the pool. */
export class PlayedProcess {
  readonly steps = new Steps();
  readonly pool: ThinPool;
  readonly queue = new PoolQueue();
  readonly look: MetadataLook;
  readonly transactions: PoolTransactions;
  readonly devices: VolumeDevices;
  readonly volumes: ThinVolumes;
  readonly snapshots: ThinSnapshots;

  private constructor(
    kernel: FakeThinKernel,
    /** On this thread: the tests open hundreds. */
    readonly ledger: Ledger & { close(): void },
    patienceMs: number,
  ) {
    kernel.before = () => this.steps.begin();
    kernel.after = () => this.steps.end();
    const counted = this.#counted(ledger);
    const names = new PoolNames(ledger.pool().uuid);
    if (!kernel.active.has(names.pool)) {
      kernel.addActive(names.pool, names.poolUuid, 'thin-pool', '8:0 8:16 128 0 0');
    }
    const { queue } = this;
    this.pool = new ThinPool(kernel, 'default', names);
    const parts = { native: kernel, ledger: counted, pool: this.pool };
    const metadataPath = '/dev/metadata';
    this.look = new MetadataLook({ ...parts, queue, metadataPath, patienceMs });
    this.transactions = new PoolTransactions({ ...parts, queue, look: this.look });
    this.devices = new VolumeDevices(kernel, counted, this.pool, queue);
    const { look, transactions, devices } = this;
    const cuts = new ThinCuts({ ...parts, look, transactions, devices });
    this.volumes = new ThinVolumes({ ...parts, look, transactions, devices, cuts });
    this.snapshots = new ThinSnapshots({
      ...{ ...parts, look, transactions, devices, cuts, metadataPath },
      ...{ poolName: 'default', volumes: this.volumes },
      keptBases: {} as ThinKeptBases,
    });
  }

  static start(kernel: FakeThinKernel, directory: string, patienceMs = 0): PlayedProcess {
    const ledger = openSqliteLedger(join(directory, 'pool.sqlite'));
    ledger.makePool(65536n);
    return new PlayedProcess(kernel, ledger, patienceMs);
  }

  #counted(ledger: Ledger): AsyncLedger {
    const call =
      (name: string) =>
      async (...args: never[]) => {
        this.steps.begin();
        const answer = (ledger[name as keyof Ledger] as (...values: never[]) => unknown)(...args);
        this.steps.end();
        return answer;
      };
    const calls = Object.keys(ledger).map((name) => [name, call(name)]);
    return Object.fromEntries(calls) as AsyncLedger;
  }
}

/** Of all volumes, in bytes. */
export const PLAYED_SIZE = 1n << 20n;

/** Snapshots sN of the volumes vN. */
export function membersOf(...numbers: string[]): SnapshotMember[] {
  return numbers.map((id) => ({ volumeId: `v${id}`, snapshotId: `s${id}` }));
}

/**
 * A pool with volumes v1 and v2 and a snapshot s0 of v1, for as long as a test takes; its processes are
 * started one after the other on one ledger.
 */
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
