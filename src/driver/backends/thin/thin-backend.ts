/**
 * The thin backend: a volume is a device of a dm-thin pool, a snapshot another one that shares its blocks.
 *
 * The pool is on two block devices, or on two image files of its own (embedded-devices.ts); its directory
 * holds the ledger and the bookmarks. This class puts the parts of one pool together; the files beside it
 * do the work. Knows ids, never names.
 *
 *   <directory>/pool-owner    uuid of the catalogue that serves the pool
 *   <directory>/pool.sqlite   the ledger
 */
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CsiError, errorCode } from '../../../base/errors.js';
import { SingleFlight } from '../../../base/single-flight.js';
import { withTimeout } from '../../../base/timeout.js';
import type { ReleaseWait } from '../../host/device-release.js';
import type { FileSystem } from '../../host/file-systems.js';
import { recognizedFileSystem } from '../../host/superblock.js';
import type { NativeRunner } from '../../native/pool.js';
import type {
  Attachment,
  Backend,
  OnEvent,
  PoolCapacity,
  PoolContents,
  PoolObjectId,
  PoolStatistics,
  RetainedBase,
  RetainedBases,
  SnapshotMember,
  StorageCondition,
  TakenSnapshots,
  Unretained,
} from '../backend.js';
import type { SpacePolicy } from '../pool-account.js';
import { claimDirectory, type PoolClaim } from '../pool-claim.js';
import type { SnapshotScan } from '../snapshot-scan.js';
import { openLedger } from './ledger/ledger-client.js';
import { OpenPool } from './open-pool.js';
import { assertDeviceMapper } from './pool/device-mapper.js';
import { EmbeddedDevices } from './pool/embedded-devices.js';
import type { PoolDevices } from './pool/pool-devices.js';
import { GivenDevices } from './pool/pool-devices.js';
import type { PoolFeatures } from './pool/pool-table.js';
import { thinCapacity, thinContents, thinStatistics } from './thin-contents.js';

export interface ThinPoolOptions extends PoolClaim, SpacePolicy, PoolFeatures {
  /** Paths of two block devices; null: two files in the directory. */
  devices: { metadata: string; data: string } | null;
  /** Upper bound for those files together; null: what the host can hold. */
  embeddedPoolBytes: bigint | null;
  /** Of a data block, for a pool that is made now. */
  dataBlockBytes: bigint;
  onEvent: OnEvent;
}

/** Status comes from memory, but a pool with a stuck metadata device holds its lock. */
const CHECK_TIMEOUT_MS = 5000;
/** The first question to the addon also starts a thread, which takes seconds on a busy node. */
const START_CHECK_TIMEOUT_MS = 60_000;

export class ThinBackend implements Backend {
  readonly pool: string;
  readonly kind = 'thin';
  readonly #native: NativeRunner;
  readonly #options: ThinPoolOptions;
  readonly #devices: PoolDevices;
  readonly #checks = new SingleFlight<'pool', void>();
  readonly #nodeChecks = new SingleFlight<'node', void>();
  #opened: OpenPool | null = null;

  /** @param openPoolLedger replaced in tests that intercept the ledger */
  constructor(
    native: NativeRunner,
    options: ThinPoolOptions,
    private readonly openPoolLedger = openLedger,
  ) {
    const { pool, directory, devices, embeddedPoolBytes: maximumBytes } = options;
    this.pool = pool;
    this.#native = native;
    this.#options = options;
    this.#devices =
      devices === null
        ? new EmbeddedDevices(native, { pool, directory, maximumBytes })
        : new GivenDevices(pool, devices);
  }

  async start(expected: 'any' | 'existing' = 'any'): Promise<void> {
    if (this.#opened !== null) return;
    const { directory, dataBlockBytes } = this.#options;
    await this.#checkNode(START_CHECK_TIMEOUT_MS);
    const file = join(directory, 'pool.sqlite');
    if (expected === 'existing') await this.#assertExists(file);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await claimDirectory(this.#native, this.#options);
    const ledger = await this.openPoolLedger(file, this.#options.onEvent);
    try {
      await ledger.makePool(dataBlockBytes);
      if (expected === 'existing') this.#assertReady((await ledger.pool()).state);
      const { pool, onEvent } = this.#options;
      const parts = { native: this.#native, ledger, devices: this.#devices };
      const features = this.#options;
      this.#opened = await OpenPool.open({ ...parts, pool, directory, features, onEvent });
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

  async identity(): Promise<string> {
    return (await this.#open.ledger.pool()).uuid;
  }

  /** Bounded, because the pool's threads may all wait for its devices. */
  checkNode(): Promise<void> {
    return this.#checkNode(CHECK_TIMEOUT_MS);
  }

  async check(): Promise<void> {
    await this.#answered(this.#checks.run('pool', async () => this.#open.check()));
  }

  #checkNode(timeoutMs: number): Promise<void> {
    const checked = this.#nodeChecks.run('node', () => assertDeviceMapper(this.#native));
    return this.#answered(checked, timeoutMs);
  }

  #answered(checked: Promise<void>, timeoutMs = CHECK_TIMEOUT_MS): Promise<void> {
    return withTimeout(checked, timeoutMs, (): never => {
      throw CsiError.failedPrecondition(
        `pool '${this.pool}' does not answer; check its devices and the kernel log`,
      );
    });
  }

  async createVolume(volumeId: string, sizeBytes: bigint): Promise<void> {
    return this.#open.volumes.create(volumeId, sizeBytes);
  }

  async restoreVolume(volumeId: string, snapshotId: string, sizeBytes: bigint): Promise<void> {
    const { snapshots, volumes } = this.#open;
    await volumes.restore(volumeId, await snapshots.record(snapshotId), sizeBytes);
  }

  async cloneVolume(volumeId: string, sourceVolumeId: string, sizeBytes: bigint): Promise<void> {
    return this.#open.volumes.clone(volumeId, sourceVolumeId, sizeBytes);
  }

  async abandonClone(volumeId: string, sourceVolumeId: string): Promise<void> {
    await this.#open.attachments.resume(sourceVolumeId);
    await this.deleteVolume(volumeId);
  }

  async expandVolume(volumeId: string, sizeBytes: bigint): Promise<bigint> {
    return this.#open.volumes.expand(volumeId, sizeBytes);
  }

  async deleteVolume(volumeId: string): Promise<void> {
    return this.#open.volumes.delete(volumeId);
  }

  async checkVolume(volumeId: string, sizeBytes: bigint): Promise<void> {
    return this.#open.volumes.check(volumeId, sizeBytes);
  }

  async markInitialized(volumeIds: readonly string[]): Promise<void> {
    return this.#open.ledger.markInitialized(volumeIds);
  }

  async isInitialized(volumeId: string): Promise<boolean> {
    return this.#open.ledger.isInitialized(volumeId);
  }

  async initializedVolumes(): Promise<ReadonlySet<string>> {
    return new Set(await this.#open.ledger.initializedVolumes());
  }

  async createSnapshots(members: readonly SnapshotMember[]): Promise<TakenSnapshots> {
    return this.#open.snapshots.create(members);
  }

  async deleteSnapshot(snapshotId: string): Promise<void> {
    return this.#open.snapshots.delete(snapshotId);
  }

  async checkSnapshot(snapshotId: string, sizeBytes: bigint): Promise<void> {
    return this.#open.snapshots.check(snapshotId, sizeBytes);
  }

  async abandonSnapshots(members: readonly SnapshotMember[]): Promise<void> {
    return this.#open.snapshots.abandon(members);
  }

  async attach(volumeId: string, { readOnly }: { readOnly: boolean }): Promise<Attachment> {
    const { attachments, volumes } = this.#open;
    return attachments.attach(await volumes.record(volumeId), readOnly);
  }

  async detach(volumeId: string, wait?: ReleaseWait): Promise<void> {
    return this.#open.attachments.detach(volumeId, wait);
  }

  /** A snapshot has no device, and only an attached volume has one. */
  async fileSystemIn(object: PoolObjectId): Promise<FileSystem | null> {
    const attachment = 'volumeId' in object ? await this.findAttachment(object.volumeId) : null;
    return attachment === null ? null : recognizedFileSystem(attachment.devicePath);
  }

  async findAttachment(volumeId: string): Promise<Attachment | null> {
    return this.#open.attachments.findAttachment(volumeId);
  }

  async capacity(): Promise<PoolCapacity> {
    return thinCapacity(this.#open, this.#devices, this.#options);
  }

  async statistics(): Promise<PoolStatistics> {
    return thinStatistics(this.#open, this.#devices, this.#options);
  }

  async condition(volumeId: string): Promise<StorageCondition> {
    return this.#open.volumes.condition(volumeId);
  }

  async list(): Promise<PoolContents> {
    return thinContents(this.#open);
  }

  async sweep(): Promise<string[]> {
    const { ledger, transactions, bookmarks, lists } = this.#open;
    const undone = await transactions.settle();
    await ledger.sweepMarks();
    return [...undone, ...(await bookmarks.sweep()), ...(await lists.lists.sweep())];
  }

  async retainBase(
    snapshotId: string,
    nextSnapshotId: string | null = null,
  ): Promise<RetainedBase | Unretained | null> {
    return this.#open.rules.retain(snapshotId, nextSnapshotId);
  }

  async retainedBases(snapshotIds?: readonly string[]): Promise<RetainedBases> {
    return this.#open.rules.all(snapshotIds);
  }

  pendingBases(): ReadonlyMap<string, unknown> {
    return this.#open.rules.held;
  }

  async dropBase(snapshotId: string): Promise<void> {
    return this.#open.rules.drop(snapshotId);
  }

  neededFor(targetSnapshotId: string, baseSnapshotId: string): string | null {
    return this.#open.rules.neededFor(targetSnapshotId, baseSnapshotId);
  }

  async beginList(): Promise<null> {
    return null;
  }

  async joinChanges(): Promise<void> {}

  async scan(targetSnapshotId: string, baseSnapshotId: string | null): Promise<SnapshotScan> {
    return this.#open.snapshots.scan(targetSnapshotId, baseSnapshotId);
  }

  get #open(): OpenPool {
    if (this.#opened !== null) return this.#opened;
    throw CsiError.failedPrecondition(`pool '${this.pool}' is not started`);
  }

  async #assertExists(ledger: string): Promise<void> {
    const isLedgerThere = await stat(ledger).then(
      () => true,
      (thrown) => {
        if (errorCode(thrown) === 'ENOENT') return false;
        throw thrown;
      },
    );
    if (isLedgerThere && (await this.#devices.exist())) return;
    throw this.#gone(isLedgerThere ? 'its devices are missing' : `its ledger ${ledger} is missing`);
  }

  #assertReady(state: string): void {
    if (state !== 'ready') throw this.#gone('its ledger is new');
  }

  #gone(why: string): CsiError {
    return CsiError.failedPrecondition(
      `pool '${this.pool}' is in the catalogue, but ${why}: check that the file system of ` +
        `${this.#options.directory} is mounted, that the disks came up, and that BLOCKDELTA_POOLS is right`,
    );
  }
}
