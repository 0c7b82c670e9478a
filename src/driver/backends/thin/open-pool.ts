/**
 * An open thin pool: constructs its parts once the ledger is open, and closes them again.
 */
import { bestEffort } from '../../../base/best-effort.js';
import { messageOf } from '../../../base/errors.js';
import { withTimeout } from '../../../base/timeout.js';
import type { NativeRunner } from '../../native/pool.js';
import { SerialQueue } from '../../serial-queue.js';
import type { InitializedVolumes, OnEvent } from '../backend.js';
import type { Freezing } from '../freezing.js';
import { ListRules } from '../retained/list-rules.js';
import { assertRetainedDirectories } from '../retained/retained-directories.js';
import { Bookmarks } from './bookmarks/bookmarks.js';
import { ThinLists } from './bookmarks/thin-lists.js';
import type { OpenLedger } from './ledger/ledger-client.js';
import { MetadataReader } from './metadata/metadata-reader.js';
import { attachedVolumes, recoverDevices } from './pool/device-mapper.js';
import type { PoolDevices } from './pool/pool-devices.js';
import { PoolGrowth } from './pool/pool-growth.js';
import { assertWritable, isWritable } from './pool/pool-health.js';
import { PoolMonitor } from './pool/pool-monitor.js';
import { PoolNames } from './pool/pool-names.js';
import { bootId, PoolOpening, type PreparedPool } from './pool/pool-opening.js';
import type { PoolFeatures } from './pool/pool-table.js';
import { PoolTransactions } from './pool/pool-transaction.js';
import { ThinPool } from './pool/thin-pool.js';
import { ThinChanges } from './thin-changes.js';
import { ThinCopies } from './thin-copies.js';
import { ThinReplicas } from './thin-replicas.js';
import { ThinSnapshots } from './thin-snapshots.js';
import { ThinVolumes } from './thin-volumes.js';
import { VolumeDevices } from './volume-devices.js';

/** Limit for a stop: an orchestrator kills a process that takes much longer. */
const CLOSE_TIMEOUT_MS = 10_000;

export interface OpenPoolDependencies {
  native: NativeRunner;
  ledger: OpenLedger;
  devices: PoolDevices;
  /** The configured name of the pool. */
  pool: string;
  directory: string;
  features: PoolFeatures;
  freezing: Freezing;
  onEvent: OnEvent;
  /** Replaced in tests. */
  closeTimeoutMs?: number;
}

export class OpenPool {
  readonly ledger: OpenLedger;
  readonly pool: ThinPool;
  readonly metadata: MetadataReader;
  readonly transactions: PoolTransactions;
  readonly attachments: VolumeDevices;
  readonly volumes: ThinVolumes;
  readonly snapshots: ThinSnapshots;
  readonly replicas: ThinReplicas;
  readonly changes: ThinChanges;
  readonly marks: InitializedVolumes;
  readonly bookmarks: Bookmarks;
  readonly lists: ThinLists;
  readonly rules: ListRules;
  readonly #monitor: PoolMonitor;
  readonly #deps: OpenPoolDependencies;
  /** Ids of the objects of an interrupted creation that `open` has undone, until `sweep` returns them. */
  #undone: string[] = [];

  private constructor(
    deps: OpenPoolDependencies,
    pool: ThinPool,
    { opened, dataBlockBytes }: Pick<PreparedPool, 'opened' | 'dataBlockBytes'>,
  ) {
    const { native, ledger, features, onEvent } = deps;
    const { metadataPath } = opened;
    const queue = new SerialQueue();
    this.#deps = deps;
    this.ledger = ledger;
    this.pool = pool;
    this.metadata = new MetadataReader({ native, ledger, pool, queue, metadataPath });
    const { metadata } = this;
    this.transactions = new PoolTransactions({ ledger, pool, queue, metadata });
    this.attachments = new VolumeDevices(native, ledger, pool, queue);
    const parts = {
      ledger,
      pool,
      metadata,
      transactions: this.transactions,
      devices: this.attachments,
    };
    const copies = new ThinCopies({ ...parts, native, freezing: deps.freezing });
    this.volumes = new ThinVolumes({ ...parts, copies });
    this.replicas = new ThinReplicas({ ...parts, native, copies });
    const stored = { ...parts, native, directory: deps.directory, metadataPath };
    this.bookmarks = new Bookmarks({
      ...stored,
      onEvent,
      onInvalid: (snapshotId, reason) => this.rules.lost(snapshotId, reason),
    });
    this.lists = new ThinLists({ ...stored, bookmarks: this.bookmarks });
    this.rules = new ListRules(this.lists, pool.pool, onEvent);
    const { rules, bookmarks, lists } = this;
    this.snapshots = new ThinSnapshots({ ...parts, copies, rules });
    this.changes = new ThinChanges({ ...parts, metadataPath, bookmarks, lists, rules });
    this.marks = {
      set: (volumeIds) => ledger.markInitialized(volumeIds),
      has: (volumeId) => ledger.isInitialized(volumeId),
      sweep: async () => {
        await ledger.sweepMarks();
        return new Set(await ledger.initializedVolumes());
      },
    };
    const growing = { ledger, pool, queue, devices: deps.devices, opened, dataBlockBytes };
    const growth = new PoolGrowth({ ...growing, features, onEvent });
    this.#monitor = new PoolMonitor({
      pool,
      growth,
      metadata,
      onEvent,
      lowWaterPercent: features.lowWaterPercent,
      onStatus: (status) => this.bookmarks.observe(status),
    });
  }

  /** FAILED_PRECONDITION if the pool is not the one that the ledger knows, or cannot be activated. */
  static async open(deps: OpenPoolDependencies): Promise<OpenPool> {
    const { native, ledger } = deps;
    const names = new PoolNames((await ledger.pool()).uuid);
    await recoverDevices(native, names);
    const pool = new ThinPool(native, deps.pool, names);
    try {
      return await OpenPool.#open(deps, pool);
    } catch (thrown) {
      // An active pool keeps its devices. The first failure is the one to report.
      const active = await pool.find().catch(() => 'unknown');
      const onFailure = (failure: unknown): void =>
        deps.onEvent({
          level: 'warn',
          message: `the devices of pool '${deps.pool}' stay attached until its next start: ${messageOf(failure)}`,
        });
      if (active === null) await bestEffort(() => deps.devices.release(), onFailure);
      throw thrown;
    }
  }

  static async #open(deps: OpenPoolDependencies, pool: ThinPool): Promise<OpenPool> {
    const prepared = await new PoolOpening({ ...deps, pool }).prepare();
    const open = new OpenPool(deps, pool, prepared);
    // Judged before the pool is active: after a kill that follows the activation, a start no longer sees this history.
    await open.bookmarks.review(prepared.history);
    const { distrust } = prepared.history;
    if (distrust !== null) await open.lists.distrust(distrust);
    await open.rules.load();
    await prepared.activate();
    await deps.ledger.recordStart(await bootId(), prepared.passesDiscards);
    await open.#settle();
    open.#monitor.start();
    return open;
  }

  /** FAILED_PRECONDITION with the remedy if the pool cannot be changed, or its metadata or files cannot be read. */
  async check(): Promise<void> {
    assertWritable(this.pool.pool, await this.pool.status());
    await this.metadata.assertReadable();
    await assertRetainedDirectories(this.#deps.native, this.pool.pool, this.#deps.directory);
  }

  /** Removes what a killed run has left, and returns its names with the ids of the objects that the start has undone. */
  async sweep(): Promise<string[]> {
    const { bookmarks, lists, replicas, snapshots } = this;
    const files = [...this.#undone.splice(0), ...(await bookmarks.sweep()), ...(await lists.lists.sweep())];
    await replicas.sweep();
    return [...files, ...(await snapshots.sweep())];
  }

  /**
   * Deactivates the pool if no volume is attached, and closes the ledger in any case. The next start takes over a pool that
   * stays active, even if its devices do not answer in time. When the devices answer at last, nothing is deactivated any
   * more: the pool may have been opened anew.
   */
  async close(): Promise<void> {
    const { pool, onEvent } = this.#deps;
    const isLeft = new AbortController();
    const timeoutMs = this.#deps.closeTimeoutMs ?? CLOSE_TIMEOUT_MS;
    await withTimeout(this.#close(isLeft.signal), timeoutMs, () => {
      isLeft.abort();
      onEvent({
        level: 'error',
        message: `pool '${pool}' does not answer and is left active; check its devices and the kernel log`,
      });
    });
  }

  async #close(isLeft: AbortSignal): Promise<void> {
    await this.#monitor.stop();
    try {
      await this.#deactivate(isLeft);
    } finally {
      await this.ledger.close();
    }
  }

  /**
   * Finishes what the last run left unfinished. If that fails, the pool is served as far as possible: `check` reports why,
   * and every change finishes it first.
   */
  async #settle(): Promise<void> {
    const { ledger, pool, metadata, transactions } = this;
    const status = await pool.status();
    if (isWritable(status)) {
      await this.#attempt('its metadata snapshot was not released', () => metadata.releaseOurs());
      await this.#attempt('an interrupted change is not settled', async () => {
        this.#undone = await transactions.settle();
      });
    }
    await this.#monitor.probe();
    const attached = new Set(await attachedVolumes(this.#deps.native, pool.names));
    if (!isWritable(await pool.status({ commit: true }))) return;
    for (const { objectId, open } of await ledger.devices()) {
      if (open && !attached.has(objectId)) await ledger.setOpen(objectId, false);
    }
  }

  /** Reports an active pool, so that nobody repairs its metadata. */
  #reportActive(why: string): void {
    const { pool, onEvent } = this.#deps;
    onEvent({ level: 'info', message: `pool '${pool}' is left active: ${why}` });
  }

  async #attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (thrown) {
      const { pool, onEvent } = this.#deps;
      onEvent({ level: 'error', message: `pool '${pool}': ${what}: ${messageOf(thrown)}` });
    }
  }

  /** @param isLeft aborted once it is too late to change anything */
  async #deactivate(isLeft: AbortSignal): Promise<void> {
    const { native, devices } = this.#deps;
    const { names } = this.pool;
    const attached = await attachedVolumes(native, names);
    if (attached.length > 0) return this.#reportActive(`${attached.length} volumes are attached`);
    const isActive = (await this.pool.find()) !== null;
    isLeft.throwIfAborted();
    if (isActive) {
      if (!(await this.pool.remove())) return this.#reportActive('its device is held open');
      const { transactionId, time, mappingRoot, detailsRoot } = await this.metadata.superblock();
      isLeft.throwIfAborted();
      await this.ledger.recordStop({ transactionId, time, mappingRoot, detailsRoot });
      isLeft.throwIfAborted();
    }
    await devices.release();
  }
}
