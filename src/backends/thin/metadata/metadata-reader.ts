/**
 * Looks devices up in a pool's metadata: by a metadata snapshot, held for the moment of the look alone.
 *
 * The kernel has one metadata snapshot a pool, for everybody. All who ask while it is not taken yet
 * share one; it is taken after they asked, so whatever they know of is in it. A left-over one of ours
 * (the ledger remembers) is released; somebody else's is waited for.
 */
import { CsiError, errorCode } from '../../../base/errors.js';
import { pollUntil } from '../../../base/poll.js';
import type { SerialQueue } from '../../../base/serial-queue.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { NativeRunner } from '../../../native/pool.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../../native/thin-addon.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { isWritable } from '../pool/pool-health.js';
import type { ThinPool } from '../pool/thin-pool.js';

export type FoundDevices = ReadonlyMap<number, ThinDeviceDetails>;

/** The superblock that counts now, as opposed to the copy of a metadata snapshot. */
export const CURRENT = 0n;

/** The kernel keeps 24 bits of the pool's time in each mapping, and counts on wrongly beyond that. */
export const MAX_TIME = (1 << 24) - 1;

/** How long a metadata snapshot of somebody else is waited for, and how often it is looked for. */
const TIMEOUT_MS = 10_000;
const POLL_INTERVAL_MS = 200;
/** thinDevices answers that many at most. */
const DEVICES_A_CALL = 65_536;

interface Batch {
  /** Null: all devices. */
  ids: Set<number> | null;
  answer: Promise<FoundDevices | null>;
}

export interface LookDependencies {
  native: NativeRunner;
  ledger: AsyncLedger;
  pool: ThinPool;
  queue: SerialQueue;
  metadataPath: string;
  timeoutMs?: number;
}

export class MetadataReader {
  /** Not begun yet: whoever asks now joins. */
  #waiting: Batch | null = null;

  constructor(private readonly deps: LookDependencies) {}

  /** Those of the devices that exist. */
  devices(deviceIds: readonly number[]): Promise<FoundDevices> {
    return this.#patiently(() => this.#join(deviceIds));
  }

  all(): Promise<FoundDevices> {
    return this.#patiently(() => this.#join(null));
  }

  /** As devices(), for work that is in the pool's queue; does not wait for anybody. */
  async devicesInQueue(deviceIds: readonly number[]): Promise<FoundDevices> {
    const found = await this.#ask(new Set(deviceIds));
    if (found !== null) return found;
    throw this.#heldByOthers();
  }

  /**
   * Of one device, without a metadata snapshot and as of the last commit. Null: it does not exist. Trees
   * that are replaced while they are read are noticed by their checksums, and a metadata snapshot
   * settles it.
   */
  async device(deviceId: number): Promise<ThinDeviceDetails | null> {
    return (await this.unconfirmedDevices([deviceId])).get(deviceId) ?? null;
  }

  /** As device(), of all that the account of space needs. */
  unconfirmedDevices(deviceIds: readonly number[]): Promise<FoundDevices> {
    return this.#unconfirmed(deviceIds, () => this.devices(deviceIds));
  }

  /** As unconfirmedDevices(), for work that is in the pool's queue; does not wait for anybody. */
  unconfirmedDevicesInQueue(deviceIds: readonly number[]): Promise<FoundDevices> {
    return this.#unconfirmed(deviceIds, () => this.devicesInQueue(deviceIds));
  }

  /** Releases what a killed plugin has left held. Of a pool that can be changed. */
  async releaseOurs(): Promise<void> {
    const { pool, queue } = this.deps;
    await queue.run(async () => this.#releaseLeftOver(await pool.status()));
  }

  async superblock(): Promise<ThinSuperblock> {
    const request = { metadata: this.deps.metadataPath, superblock: CURRENT };
    return (await this.deps.native.run('thinSuperblock', request)).superblock;
  }

  /**
   * FAILED_PRECONDITION if the metadata device does not give its superblock: the kernel itself finds out
   * when it commits next, which may be in hours. Of damage the kernel is the judge.
   */
  async assertReadable(): Promise<void> {
    try {
      await this.superblock();
    } catch (thrown) {
      if (errorCode(thrown) === 'THIN_METADATA_INVALID') return;
      const { metadataPath, pool } = this.deps;
      throw CsiError.failedPrecondition(
        `pool '${pool.pool}' has a metadata device that cannot be read, ${metadataPath}: ` +
          `${CsiError.from(thrown).message}. Look at the device and the kernel log`,
        { cause: thrown },
      );
    }
  }

  async #unconfirmed(
    deviceIds: readonly number[],
    confirmed: () => Promise<FoundDevices>,
  ): Promise<FoundDevices> {
    try {
      return await this.#read(CURRENT, new Set(deviceIds));
    } catch (thrown) {
      if (errorCode(thrown) !== 'THIN_METADATA_INVALID') throw thrown;
      return confirmed();
    }
  }

  async #patiently(ask: () => Promise<FoundDevices | null>): Promise<FoundDevices> {
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

  /** Null: somebody else holds the pool's metadata snapshot. */
  async #ask(ids: ReadonlySet<number> | null): Promise<FoundDevices | null> {
    const status = await this.deps.pool.status();
    // Of a pool that is not written to, nothing has to be held.
    if (!isWritable(status)) return this.#read(CURRENT, ids);
    if (status.heldRoot !== null && !(await this.#releaseLeftOver(status))) return null;
    await this.deps.ledger.setHoldsMetadataSnapshot(true);
    const held = await this.#reserve();
    if (held === null) return null;
    try {
      return await this.#read(held, ids);
    } finally {
      await this.deps.pool.tell(['release_metadata_snap']);
      await this.deps.ledger.setHoldsMetadataSnapshot(false);
    }
  }

  /** Null: somebody else was quicker. */
  async #reserve(): Promise<bigint | null> {
    try {
      return (await this.deps.pool.tell(['reserve_metadata_snap'])).heldRoot;
    } catch (thrown) {
      if (errorCode(thrown) !== 'EBUSY') throw thrown;
      await this.deps.ledger.setHoldsMetadataSnapshot(false);
      return null;
    }
  }

  /** Whether the metadata snapshot that is held was ours, and is released now. */
  async #releaseLeftOver(status: ThinPoolStatus): Promise<boolean> {
    const { holdsMetadataSnapshot } = await this.deps.ledger.pool();
    if (!holdsMetadataSnapshot) return false;
    if (status.heldRoot !== null) await this.deps.pool.tell(['release_metadata_snap']);
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
      if (truncated) throw this.#tooMany();
      for (const device of devices) found.set(device.deviceId, device);
    }
    return found;
  }

  #tooMany(): CsiError {
    return CsiError.failedPrecondition(
      `pool '${this.deps.pool.pool}' holds more than ${DEVICES_A_CALL} volumes and snapshots: delete some`,
    );
  }

  #heldByOthers(): CsiError {
    const { pool } = this.deps.pool;
    return CsiError.failedPrecondition(
      `another tool holds the metadata snapshot of pool '${pool}' (there is one a pool); let it end, or ` +
        `release it: dmsetup message ${this.deps.pool.names.pool} 0 release_metadata_snap`,
    );
  }
}

function* chunks(ids: readonly number[]): Generator<number[]> {
  for (let begin = 0; begin < ids.length; begin += DEVICES_A_CALL) {
    yield ids.slice(begin, begin + DEVICES_A_CALL);
  }
}
