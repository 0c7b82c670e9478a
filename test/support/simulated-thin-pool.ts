/**
 * The parts of the thin backend on a simulated kernel and a real ledger, in a process that is killed at any
 * step: a call to the kernel or the ledger that never happens, or whose answer is never seen.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { SnapshotMember } from '../../src/driver/backends/backend.js';
import { DEFAULT_FREEZING } from '../../src/driver/backends/freezing.js';
import type { ListRules } from '../../src/driver/backends/retained/list-rules.js';
import type { Bookmarks } from '../../src/driver/backends/thin/bookmarks/bookmarks.js';
import type { ThinLists } from '../../src/driver/backends/thin/bookmarks/thin-lists.js';
import type { AsyncLedger } from '../../src/driver/backends/thin/ledger/ledger-client.js';
import type { Ledger } from '../../src/driver/backends/thin/ledger/sqlite-ledger.js';
import { MetadataReader } from '../../src/driver/backends/thin/metadata/metadata-reader.js';
import { PoolNames } from '../../src/driver/backends/thin/pool/pool-names.js';
import { PoolTransactions } from '../../src/driver/backends/thin/pool/pool-transaction.js';
import { ThinPool } from '../../src/driver/backends/thin/pool/thin-pool.js';
import { ThinChanges } from '../../src/driver/backends/thin/thin-changes.js';
import { ThinCopies } from '../../src/driver/backends/thin/thin-copies.js';
import { ThinReplicas } from '../../src/driver/backends/thin/thin-replicas.js';
import { ThinSnapshots } from '../../src/driver/backends/thin/thin-snapshots.js';
import { ThinVolumes } from '../../src/driver/backends/thin/thin-volumes.js';
import { VolumeDevices } from '../../src/driver/backends/thin/volume-devices.js';
import { SerialQueue } from '../../src/driver/serial-queue.js';
import { openLedgerHere } from './direct-database.js';
import { FakeThinKernel } from './fake-thin-kernel.js';
import { temporaryDirectory } from './temporary.js';

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
export class SimulatedProcess {
  readonly steps = new Steps();
  /** On this thread: the tests open hundreds. */
  readonly ledger: ReturnType<typeof openLedgerHere>;
  readonly pool: ThinPool;
  readonly queue = new SerialQueue();
  readonly metadata: MetadataReader;
  readonly transactions: PoolTransactions;
  readonly devices: VolumeDevices;
  readonly volumes: ThinVolumes;
  readonly snapshots: ThinSnapshots;
  readonly replicas: ThinReplicas;
  readonly changes: ThinChanges;

  constructor(kernel: FakeThinKernel, directory: string, timeoutMs = 0) {
    const ledger = openLedgerHere(join(directory, 'pool.sqlite'));
    ledger.makePool(65536n);
    this.ledger = ledger;
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
    this.metadata = new MetadataReader({ ...parts, queue, metadataPath, timeoutMs });
    this.transactions = new PoolTransactions({ ...parts, queue, metadata: this.metadata });
    this.devices = new VolumeDevices(kernel, counted, this.pool, queue);
    const { metadata, transactions, devices } = this;
    const copies = new ThinCopies({ ...parts, metadata, transactions, devices, freezing: DEFAULT_FREEZING });
    this.volumes = new ThinVolumes({ ...parts, metadata, transactions, devices, copies });
    const rules = { removed: async () => undefined } as unknown as ListRules;
    this.snapshots = new ThinSnapshots({ ...parts, metadata, transactions, devices, copies, rules });
    const openDevice = async () => ({ sync: async () => undefined, close: async () => undefined });
    this.replicas = new ThinReplicas({ ...parts, metadata, transactions, devices, copies, openDevice });
    this.changes = new ThinChanges({
      ...parts,
      metadata,
      metadataPath,
      rules,
      bookmarks: {} as Bookmarks,
      lists: {} as ThinLists,
    });
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
export const SIMULATED_SIZE = 1n << 20n;

/** Snapshots sN of the volumes vN. */
export function membersOf(...numbers: string[]): SnapshotMember[] {
  return numbers.map((id) => ({ volumeId: `v${id}`, snapshotId: `s${id}` }));
}

/**
 * A pool with volumes v1 and v2 and a snapshot s0 of v1, for as long as a test takes; its processes are
 * started one after the other on one ledger.
 */
export class SimulatedPool {
  readonly kernel = new FakeThinKernel();
  readonly #directory = temporaryDirectory();
  #process: SimulatedProcess | null = null;

  static async use(work: (pool: SimulatedPool, process: SimulatedProcess) => Promise<void>): Promise<void> {
    const pool = new SimulatedPool();
    try {
      const process = pool.start();
      const { volumes, snapshots } = process;
      for (const id of ['v1', 'v2']) await volumes.create(id, SIMULATED_SIZE);
      await snapshots.create([{ volumeId: 'v1', snapshotId: 's0' }]);
      await work(pool, process);
    } finally {
      pool.#process?.ledger.close();
    }
  }

  start(timeoutMs?: number): SimulatedProcess {
    this.#process?.ledger.close();
    this.#process = new SimulatedProcess(this.kernel, this.#directory, timeoutMs);
    return this.#process;
  }

  /** Ids of the thin devices that exist, by what the ledger says they are. */
  assertAgreement(process: SimulatedProcess): string[] {
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
