/**
 * Reads the devices of a pool from its metadata: as of the last commit, or through a metadata snapshot that
 * is held only while it is read.
 *
 * The kernel has one metadata snapshot per pool, for all programs. Callers that come before a metadata snapshot is taken
 * share it; it is taken after their calls, so it contains every device that they know of. The reader releases a metadata
 * snapshot that a killed plugin left behind (the ledger records it), and waits for the end of one that another program holds.
 */
import { CsiError, errorCode, messageOf } from '../../../../base/errors.js';
import { pollUntil } from '../../../../base/poll.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../../native/thin-addon.js';
import type { SerialQueue } from '../../../serial-queue.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { isWritable } from '../pool/pool-health.js';
import type { ThinPool } from '../pool/thin-pool.js';

export type FoundDevices = ReadonlyMap<number, ThinDeviceDetails>;

/** Location of the pool's current superblock, as opposed to that of a metadata snapshot. */
export const CURRENT = 0n;

/** The kernel keeps 24 bits of the pool's time in each mapping; beyond them it goes on counting, but wrongly. */
export const MAX_TIME = (1 << 24) - 1;

/** How long, and how often, to wait for another program's metadata snapshot. */
const TIMEOUT_MS = 10_000;
const POLL_INTERVAL_MS = 200;
/** How many times to try to look up devices between two commits. A pool commits once a second and at each flush. */
const COMMITTED_ATTEMPTS = 4;
/** The most devices that one thinDevices call returns. */
const DEVICES_PER_CALL = 65_536;

interface Batch {
  /** Null for all devices. */
  ids: Set<number> | null;
  answer: Promise<FoundDevices | null>;
}

export interface MetadataReaderDependencies {
  native: NativeRunner;
  ledger: AsyncLedger;
  pool: ThinPool;
  queue: SerialQueue;
  metadataPath: string;
  timeoutMs?: number;
}

export class MetadataReader {
  /** A batch whose read has not begun: new callers join it. */
  #waiting: Batch | null = null;

  constructor(private readonly deps: MetadataReaderDependencies) {}

  /** Those of the given devices that exist. */
  devices(deviceIds: readonly number[]): Promise<FoundDevices> {
    return this.#waitWhileHeld(() => this.#join(deviceIds));
  }

  all(): Promise<FoundDevices> {
    return this.#waitWhileHeld(() => this.#join(null));
  }

  /**
   * Those of the given devices that exist as of one commit, without a metadata snapshot and without waiting for the pool's
   * queue. Null if the pool committed during each attempt, or if its metadata is damaged.
   *
   * The kernel never overwrites a block that the superblock on the disk leads to: only a later commit can reuse the blocks
   * that a commit frees, after the superblock of the first commit is on the disk. So if the superblock is the same before and
   * after the lookup, all blocks read in between belonged to its trees.
   */
  async committedDevices(deviceIds: readonly number[]): Promise<FoundDevices | null> {
    const ids = new Set(deviceIds);
    try {
      let before = await this.superblock();
      for (let attempt = 0; attempt < COMMITTED_ATTEMPTS; attempt += 1) {
        const found = await this.#readWithin(ids);
        const after = await this.superblock();
        if (found !== null && isSameCommit(before, after)) return found;
        before = after;
      }
    } catch (thrown) {
      if (errorCode(thrown) !== 'THIN_METADATA_INVALID') throw thrown;
    }
    return null;
  }

  /** As devices(), for work in the pool's queue. Does not wait for another program. */
  async devicesInQueue(deviceIds: readonly number[]): Promise<FoundDevices> {
    const found = await this.#ask(new Set(deviceIds));
    if (found !== null) return found;
    throw this.#heldByOthers();
  }

  /**
   * One device as of the last commit, without a metadata snapshot. Null if it does not exist. If the trees change while they
   * are read, their checksums show it, and the read is repeated with a metadata snapshot.
   */
  async device(deviceId: number): Promise<ThinDeviceDetails | null> {
    return (await this.unconfirmedDevices([deviceId])).get(deviceId) ?? null;
  }

  /** As device(), for several devices. */
  unconfirmedDevices(deviceIds: readonly number[]): Promise<FoundDevices> {
    return this.#unconfirmed(deviceIds, () => this.devices(deviceIds));
  }

  /** As unconfirmedDevices(), for work in the pool's queue. Does not wait for another program. */
  unconfirmedDevicesInQueue(deviceIds: readonly number[]): Promise<FoundDevices> {
    return this.#unconfirmed(deviceIds, () => this.devicesInQueue(deviceIds));
  }

  /** Releases a metadata snapshot that a killed plugin left behind. The pool must be writable. */
  async releaseOurs(): Promise<void> {
    const { pool, queue } = this.deps;
    await queue.run(async () => this.#releaseLeftOver(await pool.status()));
  }

  async superblock(): Promise<ThinSuperblock> {
    const request = { metadata: this.deps.metadataPath, superblock: CURRENT };
    return (await this.deps.native.run('thinSuperblock', request)).superblock;
  }

  /**
   * FAILED_PRECONDITION if the superblock cannot be read from the metadata device: the kernel itself would
   * notice at its next commit, which may be hours away. Damage is for the kernel to judge.
   */
  async assertReadable(): Promise<void> {
    try {
      await this.superblock();
    } catch (thrown) {
      if (errorCode(thrown) === 'THIN_METADATA_INVALID') return;
      const { metadataPath, pool } = this.deps;
      throw CsiError.failedPrecondition(
        `pool '${pool.pool}' has a metadata device that cannot be read, ${metadataPath}: ` +
          `${messageOf(thrown)}. Check the device and the kernel log`,
        { cause: thrown },
      );
    }
  }

  async #unconfirmed(deviceIds: readonly number[], confirmed: () => Promise<FoundDevices>): Promise<FoundDevices> {
    return (await this.#readWithin(new Set(deviceIds))) ?? confirmed();
  }

  /** Null if a block was not what it should be, as a commit in between may cause. */
  async #readWithin(ids: ReadonlySet<number>): Promise<FoundDevices | null> {
    try {
      return await this.#read(CURRENT, ids);
    } catch (thrown) {
      if (errorCode(thrown) !== 'THIN_METADATA_INVALID') throw thrown;
      return null;
    }
  }

  async #waitWhileHeld(ask: () => Promise<FoundDevices | null>): Promise<FoundDevices> {
    const timeoutMs = this.deps.timeoutMs ?? TIMEOUT_MS;
    const found = await pollUntil(ask, { intervalMs: POLL_INTERVAL_MS, timeoutMs });
    if (found === null) throw this.#heldByOthers();
    return found;
  }

  #join(deviceIds: readonly number[] | null): Promise<FoundDevices | null> {
    const batch = this.#waiting ?? this.#open();
    if (deviceIds === null) batch.ids = null;
    for (const id of deviceIds ?? []) batch.ids?.add(id);
    return batch.answer;
  }

  #open(): Batch {
    const batch: Batch = {
      ids: new Set(),
      answer: this.deps.queue.run(() => {
        this.#waiting = null;
        return this.#ask(batch.ids);
      }),
    };
    this.#waiting = batch;
    return batch;
  }

  /** Null if another program holds the pool's metadata snapshot. */
  async #ask(ids: ReadonlySet<number> | null): Promise<FoundDevices | null> {
    const status = await this.deps.pool.status();
    // The metadata of a pool that is not writable does not change.
    if (!isWritable(status)) return this.#read(CURRENT, ids);
    if (status.heldRoot !== null && !(await this.#releaseLeftOver(status))) return null;
    await this.deps.ledger.setHoldsMetadataSnapshot(true);
    const held = await this.#reserve();
    if (held === null) return null;
    try {
      return await this.#read(held, ids);
    } finally {
      await this.deps.pool.send(['release_metadata_snap']);
      await this.deps.ledger.setHoldsMetadataSnapshot(false);
    }
  }

  /** Takes the metadata snapshot. Null if another program took it first. */
  async #reserve(): Promise<bigint | null> {
    try {
      return (await this.deps.pool.send(['reserve_metadata_snap'])).heldRoot;
    } catch (thrown) {
      if (errorCode(thrown) !== 'EBUSY') throw thrown;
      await this.deps.ledger.setHoldsMetadataSnapshot(false);
      return null;
    }
  }

  /** Releases the held metadata snapshot if a killed plugin left it. Returns whether one did. */
  async #releaseLeftOver(status: ThinPoolStatus): Promise<boolean> {
    const { holdsMetadataSnapshot } = await this.deps.ledger.pool();
    if (!holdsMetadataSnapshot) return false;
    if (status.heldRoot !== null) await this.deps.pool.send(['release_metadata_snap']);
    await this.deps.ledger.setHoldsMetadataSnapshot(false);
    return true;
  }

  async #read(superblock: bigint, ids: ReadonlySet<number> | null): Promise<FoundDevices> {
    const found = new Map<number, ThinDeviceDetails>();
    const where = { metadata: this.deps.metadataPath, superblock };
    for (const deviceIds of ids === null ? [null] : chunks([...ids])) {
      const { devices, truncated } = await this.deps.native.run('thinDevices', {
        ...where,
        deviceIds,
      });
      if (truncated) {
        throw CsiError.failedPrecondition(
          `pool '${this.deps.pool.pool}' has more than ${DEVICES_PER_CALL} thin devices: delete volumes or snapshots`,
        );
      }
      for (const device of devices) found.set(device.deviceId, device);
    }
    return found;
  }

  #heldByOthers(): CsiError {
    const { pool } = this.deps.pool;
    return CsiError.failedPrecondition(
      `another program holds the metadata snapshot of pool '${pool}', which has only one; wait for it to end, ` +
        `or release the snapshot: dmsetup message ${this.deps.pool.names.pool} 0 release_metadata_snap`,
    );
  }
}

/** The checksum distinguishes commits whose roots are in the same blocks. */
function isSameCommit(a: ThinSuperblock, b: ThinSuperblock): boolean {
  return (
    a.checksum === b.checksum &&
    a.transactionId === b.transactionId &&
    a.mappingRoot === b.mappingRoot &&
    a.detailsRoot === b.detailsRoot
  );
}

function* chunks(ids: readonly number[]): Generator<number[]> {
  for (let begin = 0; begin < ids.length; begin += DEVICES_PER_CALL) {
    yield ids.slice(begin, begin + DEVICES_PER_CALL);
  }
}
