/**
 * Grows a pool: adopts devices that have grown and settings that have changed, and enlarges an embedded
 * pool's metadata before it is full, because a pool with full metadata stops.
 */
import { CsiError, StatusCode } from '../../../../base/errors.js';
import { sizeOfDeviceAt } from '../../../../base/system/device-attributes.js';
import type { DmTarget, ThinPoolStatus } from '../../../native/dm-addon.js';
import type { SerialQueue } from '../../../serial-queue.js';
import type { OnEvent } from '../../backend.js';
import { METADATA_SHORT_FREE_PERCENT } from '../../pool-levels.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { labelOffset, moveLabel } from './device-label.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';
import { blockNumber } from './pool-devices.js';
import {
  isSamePool,
  METADATA_MAXIMUM,
  type PoolFeatures,
  type PoolTable,
  poolTable,
  SECTOR_BYTES,
} from './pool-table.js';
import type { ThinPool } from './thin-pool.js';

export const METADATA_BLOCK_BYTES = 4096n;
/** Data blocks whose reference counts fit in one metadata block. */
const COUNTS_PER_BLOCK = 16_320n;
/** Spare blocks for the index above the counts, and for other changes meanwhile: one in 50, plus 64 blocks. */
const SPARE_SHARE = 50n;
const SPARE_BLOCKS = 64n;

export interface GrowthDependencies {
  ledger: AsyncLedger;
  pool: ThinPool;
  queue: SerialQueue;
  devices: PoolDevices;
  opened: OpenDevices;
  dataBlockBytes: bigint;
  features: PoolFeatures;
  onEvent: OnEvent;
}

/**
 * The table for these devices and settings.
 *
 * @param dataBytes how much of the data device the pool may use, at most up to the label
 */
export async function desiredTable(
  { metadataPath, dataPath }: OpenDevices,
  dataBytes: bigint,
  dataBlockBytes: bigint,
  features: PoolFeatures,
): Promise<PoolTable> {
  const devices = {
    metadata: await blockNumber(metadataPath),
    data: await blockNumber(dataPath),
    dataBytes,
  };
  return poolTable(devices, dataBlockBytes, features);
}

export class PoolGrowth {
  #hasReportedNoRoom = false;

  constructor(private readonly deps: GrowthDependencies) {}

  /**
   * Grows the pool as needed; cheap while there is nothing to do. FAILED_PRECONDITION if the devices are not those of the
   * active pool, or too small; the pool keeps its table.
   */
  async step(): Promise<void> {
    await this.deps.queue.run(() => this.#step());
  }

  async #step(): Promise<void> {
    const { pool } = this.deps;
    const status = await pool.status();
    // A pool that has failed or needs a check cannot grow.
    if (status.mode === 'fail' || status.mode === 'error' || status.needsCheck) return;
    if (isMetadataShort(status)) await this.#growMetadata();
    const device = await pool.find();
    const [target] = device?.targets ?? [];
    if (target === undefined) return;
    // Metadata grows first: more data needs more of it, and data that cannot grow must not prevent it.
    await this.#adoptMetadata(target);
    await this.#adoptData(target);
  }

  /** Adopts larger metadata and changed settings; uses as much of the data device as before. */
  async #adoptMetadata(target: DmTarget): Promise<void> {
    const { pool } = this.deps;
    const wanted = await this.#table(target.lengthSectors * SECTOR_BYTES);
    this.#assertSamePool(target.table, wanted.table);
    const { totalMetadataBlocks } = await pool.status();
    const hasRoom = (await this.#metadataBlocks()) <= totalMetadataBlocks;
    if (target.table === wanted.table && hasRoom) return;
    await pool.replace(wanted);
  }

  async #adoptData(target: DmTarget): Promise<void> {
    const { opened, pool } = this.deps;
    const usableBytes = labelOffset(await sizeOfDeviceAt(opened.dataPath));
    const { sizeSectors } = await this.#table(usableBytes);
    if (sizeSectors > target.lengthSectors) {
      await this.#makeRoom((sizeSectors - target.lengthSectors) * SECTOR_BYTES);
    }
    const wanted = await this.#table(labelOffset(await this.#moveLabel()));
    if (wanted.sizeSectors !== target.lengthSectors) await pool.replace(wanted);
  }

  /**
   * FAILED_PRECONDITION if the metadata has no room to count `moreBytes` more bytes of data: the kernel would notice half way,
   * and the pool would need an offline check.
   */
  async #makeRoom(moreBytes: bigint): Promise<void> {
    const { pool, dataBlockBytes, opened } = this.deps;
    const needed = metadataBlocksFor(moreBytes / dataBlockBytes);
    let status = await pool.status();
    while (freeMetadataBlocks(status) <= needed) {
      if (!(await this.#growMetadata())) {
        throw CsiError.failedPrecondition(
          `${moreBytes} bytes more of data need more than ${needed} free blocks of 4 KiB in the metadata of ` +
            `pool '${pool.pool}', which has fewer: enlarge its metadata device ${opened.metadataPath} ` +
            'first; until then the pool keeps its size',
        );
      }
      const [target] = (await pool.find())?.targets ?? [];
      if (target !== undefined) await this.#adoptMetadata(target);
      status = await pool.status();
    }
  }

  #table(dataBytes: bigint): Promise<PoolTable> {
    const { opened, dataBlockBytes, features } = this.deps;
    return desiredTable(opened, dataBytes, dataBlockBytes, features);
  }

  /** Another disk may appear under the path while the pool is active. */
  #assertSamePool(active: string, wanted: string): void {
    if (isSamePool(active, wanted)) return;
    throw CsiError.failedPrecondition(
      `pool '${this.deps.pool.pool}' is active with the table '${active}', but the paths in BLOCKDELTA_POOLS ` +
        `now lead to other devices: '${wanted}'. Nothing was changed; make the paths lead to the pool's devices again`,
    );
  }

  /** Grows the metadata device; returns whether it has grown. Reports a lack of room once, until the metadata grows again. */
  async #growMetadata(): Promise<boolean> {
    const { pool, devices, onEvent } = this.deps;
    try {
      if (!(await devices.growMetadata())) return false;
      onEvent({ level: 'info', message: `the metadata of pool '${pool.pool}' has been enlarged` });
      this.#hasReportedNoRoom = false;
      return true;
    } catch (thrown) {
      const { code, message } = CsiError.from(thrown);
      if (code !== StatusCode.RESOURCE_EXHAUSTED) throw thrown;
      if (!this.#hasReportedNoRoom) onEvent({ level: 'warn', message });
      this.#hasReportedNoRoom = true;
      return false;
    }
  }

  /**
   * Moves the label to the end of a data device that has grown, and returns the device size that determines
   * its offset. A kill at any point leaves a label where the ledger expects it, outside the pool's table.
   */
  async #moveLabel(): Promise<bigint> {
    const { ledger, opened, pool } = this.deps;
    const { uuid: poolUuid, labelledBytes } = await ledger.pool();
    const deviceBytes = await sizeOfDeviceAt(opened.dataPath);
    if (labelledBytes === null || deviceBytes < labelledBytes) {
      throw CsiError.failedPrecondition(
        `${opened.dataPath} has ${deviceBytes} bytes and had ${labelledBytes} when pool '${pool.pool}' was ` +
          'labelled: devices of a pool can only grow; restore its size',
      );
    }
    if (labelOffset(deviceBytes) === labelOffset(labelledBytes)) return labelledBytes;
    const from = { poolUuid, deviceBytes: labelledBytes };
    await moveLabel(pool.pool, opened.dataPath, from, deviceBytes);
    await ledger.setLabelledBytes(deviceBytes);
    return deviceBytes;
  }

  async #metadataBlocks(): Promise<bigint> {
    const bytes = await sizeOfDeviceAt(this.deps.opened.metadataPath);
    return (bytes < METADATA_MAXIMUM ? bytes : METADATA_MAXIMUM) / METADATA_BLOCK_BYTES;
  }
}

export function isMetadataShort(status: ThinPoolStatus): boolean {
  return freeMetadataBlocks(status) * 100n < status.totalMetadataBlocks * METADATA_SHORT_FREE_PERCENT;
}

function freeMetadataBlocks({ usedMetadataBlocks, totalMetadataBlocks }: ThinPoolStatus): bigint {
  return totalMetadataBlocks - usedMetadataBlocks;
}

/** Upper bound of the metadata blocks that count this many more data blocks. */
function metadataBlocksFor(dataBlocks: bigint): bigint {
  const counts = dataBlocks / COUNTS_PER_BLOCK;
  return counts + counts / SPARE_SHARE + SPARE_BLOCKS;
}
