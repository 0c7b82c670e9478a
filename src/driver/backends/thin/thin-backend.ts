/**
 * The thin backend: a volume is a device of a dm-thin pool, and a snapshot is another device that shares its blocks.
 *
 * The pool is on two block devices, or on two image files of its own (embedded-devices.ts); its directory holds the ledger,
 * the bookmarks and the change lists. This class puts the parts of one pool together; the files beside it do the work. Knows
 * ids, never names.
 *
 *   <directory>/pool-owner    uuid of the catalogue that serves the pool
 *   <directory>/pool.sqlite   the ledger
 */
import { join } from 'node:path';
import { CsiError } from '../../../base/errors.js';
import { SingleFlight } from '../../../base/single-flight.js';
import { withTimeout } from '../../../base/timeout.js';
import type { NativeRunner } from '../../native/pool.js';
import type {
  Attachments,
  Backend,
  InitializedVolumes,
  OnEvent,
  PoolBases,
  PoolCapacity,
  PoolContents,
  PoolReplicas,
  PoolSnapshots,
  PoolStatistics,
  PoolVolumes,
  SnapshotChanges,
} from '../backend.js';
import { DEFAULT_FREEZING, type Freezing } from '../freezing.js';
import type { SpacePolicy } from '../pool-account.js';
import { claimDirectory, type PoolClaim } from '../pool-claim.js';
import { sweepAtStart } from '../start-sweep.js';
import { openLedger } from './ledger/ledger-client.js';
import { OpenPool } from './open-pool.js';
import { assertDeviceMapper } from './pool/device-mapper.js';
import { EmbeddedDevices } from './pool/embedded-devices.js';
import type { PoolDevices } from './pool/pool-devices.js';
import { GivenDevices } from './pool/pool-devices.js';
import type { PoolFeatures } from './pool/pool-table.js';
import { thinCapacity, thinContents, thinStatistics } from './thin-contents.js';

export interface ThinPoolOptions extends PoolClaim, SpacePolicy, PoolFeatures {
  /** Paths of two block devices; null for two files in the directory. */
  devices: { metadata: string; data: string } | null;
  /** Upper bound for those files together; null for what the host can hold. */
  embeddedPoolBytes: bigint | null;
  /** Size of a data block, for a pool that is created now. */
  dataBlockBytes: bigint;
  freezing?: Freezing;
  onEvent: OnEvent;
}

/** The kernel reads a status from memory, but a pool with a stuck metadata device holds its lock. */
const CHECK_TIMEOUT_MS = 5000;
/** The first question to the addon also starts a thread, which takes seconds on a busy node. */
const START_CHECK_TIMEOUT_MS = 60_000;

export class ThinBackend implements Backend {
  readonly pool: string;
  readonly kind = 'thin';
  /** There before the start, too, because its absence would say that the pool cannot hold replicas. */
  readonly replicas: PoolReplicas = {
    makeRoom: async () => this.#open.replicas.makeRoom(),
    begin: async (...args) => this.#open.replicas.begin(...args),
    open: async (id) => this.#open.replicas.open(id),
    openComplete: async (id) => this.#open.replicas.openComplete(id),
    complete: async (id) => this.#open.replicas.complete(id),
    promise: async (...args) => this.#open.replicas.promise(...args),
    delete: async (id) => this.#open.replicas.delete(id),
    check: async (...args) => this.#open.replicas.check(...args),
    list: async () => this.#open.replicas.list(),
  };
  readonly #devices: PoolDevices;
  readonly #checks = new SingleFlight<'pool', void>();
  readonly #nodeChecks = new SingleFlight<'node', void>();
  #opened: OpenPool | null = null;

  /** @param openPoolLedger replaced in tests that intercept the ledger */
  constructor(
    private readonly native: NativeRunner,
    private readonly options: ThinPoolOptions,
    private readonly openPoolLedger = openLedger,
  ) {
    const { pool, directory, devices, embeddedPoolBytes: maximumBytes } = options;
    this.pool = pool;
    this.#devices =
      devices === null
        ? new EmbeddedDevices(native, { pool, directory, maximumBytes })
        : new GivenDevices(pool, devices);
  }

  async start(expected: 'any' | 'existing' = 'any', claim?: (uuid: string) => Promise<unknown>): Promise<string[]> {
    const opened = this.#opened ?? (await this.#openPool(expected));
    await claim?.((await opened.ledger.pool()).uuid);
    return sweepAtStart(this.pool, this.options.onEvent, () => opened.sweep());
  }

  async #openPool(expected: 'any' | 'existing'): Promise<OpenPool> {
    const { directory, dataBlockBytes } = this.options;
    await this.#checkNode(START_CHECK_TIMEOUT_MS);
    const file = join(directory, 'pool.sqlite');
    if (expected === 'existing') await this.#assertExists(file);
    await this.native.run('makeDirectory', { path: directory });
    await claimDirectory(this.native, this.options);
    const ledger = await this.openPoolLedger(file, this.options.onEvent);
    try {
      await ledger.makePool(dataBlockBytes);
      if (expected === 'existing' && (await ledger.pool()).state !== 'ready') {
        throw this.#gone('its ledger is new');
      }
      const { pool, onEvent, freezing = DEFAULT_FREEZING } = this.options;
      const parts = { native: this.native, ledger, devices: this.#devices, freezing };
      const features = this.options;
      const opened = await OpenPool.open({ ...parts, pool, directory, features, onEvent });
      this.#opened = opened;
      return opened;
    } catch (thrown) {
      await ledger.close();
      throw thrown;
    }
  }

  async stop(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    await opened?.close();
  }

  /** Runs both checks at once, so that a dead pool takes the time of one. What the node lacks is reported first. */
  async check(): Promise<void> {
    const checkPool = () => this.#checks.run('pool', async () => this.#open.check());
    const checks = await Promise.allSettled([
      this.#checkNode(CHECK_TIMEOUT_MS),
      this.#answered(checkPool(), CHECK_TIMEOUT_MS),
    ]);
    for (const each of checks) if (each.status === 'rejected') throw each.reason;
  }

  get volumes(): PoolVolumes {
    return this.#open.volumes;
  }

  get snapshots(): PoolSnapshots {
    return this.#open.snapshots;
  }

  get attachments(): Attachments {
    return this.#open.attachments;
  }

  get marks(): InitializedVolumes {
    return this.#open.marks;
  }

  get bases(): PoolBases {
    return this.#open.rules;
  }

  get changes(): SnapshotChanges {
    return this.#open.changes;
  }

  async capacity(): Promise<PoolCapacity> {
    return thinCapacity(this.#open, this.#devices, this.options);
  }

  async statistics(): Promise<PoolStatistics> {
    return thinStatistics(this.#open, this.#devices, this.options);
  }

  async list(): Promise<PoolContents> {
    return thinContents(this.#open);
  }

  /** Bounded in time, because all worker threads may be waiting for the pool's devices. */
  #checkNode(timeoutMs: number): Promise<void> {
    const checked = this.#nodeChecks.run('node', () => assertDeviceMapper(this.native));
    return this.#answered(checked, timeoutMs);
  }

  #answered(checked: Promise<void>, timeoutMs: number): Promise<void> {
    return withTimeout(checked, timeoutMs, (): never => {
      throw CsiError.failedPrecondition(`pool '${this.pool}' does not answer; check its devices and the kernel log`);
    });
  }

  get #open(): OpenPool {
    if (this.#opened !== null) return this.#opened;
    throw CsiError.failedPrecondition(`pool '${this.pool}' is not started`);
  }

  async #assertExists(ledger: string): Promise<void> {
    const { entry } = await this.native.run('entryOf', { path: ledger });
    const isLedgerThere = entry !== null;
    if (isLedgerThere && (await this.#devices.exist())) return;
    throw this.#gone(isLedgerThere ? 'its devices are missing' : `its ledger ${ledger} is missing`);
  }

  #gone(why: string): CsiError {
    return CsiError.failedPrecondition(
      `pool '${this.pool}' is in the catalogue, but ${why}: check that the file system of ` +
        `${this.options.directory} is mounted, that the disks came up, and that BLOCKDELTA_POOLS is right`,
    );
  }
}
