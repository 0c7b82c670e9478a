/**
 * Lets a pool grow: takes up devices that have become larger and settings that have changed, and makes an
 * embedded pool's metadata larger before it is full, since a pool without room in its metadata stops.
 */

import { CsiError, StatusCode } from '../../../base/errors.js';
import type { SerialQueue } from '../../../base/serial-queue.js';
import { deviceSizeBytes } from '../../../native/block-device.js';
import type { DmTarget, ThinPoolStatus } from '../../../native/dm-addon.js';
import type { OnEvent } from '../../events.js';
import type { AsyncLedger } from '../ledger/ledger-client.js';
import { blockNumber } from './block-numbers.js';
import { labelOffset, moveLabel } from './device-label.js';
import type { OpenDevices, PoolDevices } from './pool-devices.js';
import {
  isSamePool,
  METADATA_MAXIMUM,
  type PoolFeatures,
  type PoolTable,
  poolTable,
  SECTOR_BYTES,
} from './pool-table.js';
import type { ThinPool } from './thin-pool.js';

const METADATA_BLOCK_BYTES = 4096n;
/** Of the data: what one block of the metadata counts. */
const COUNTED_BLOCKS = 16_320n;
/** For what else changes meanwhile, and the nodes above the counts: a share of those, and some. */
const SPARE_SHARE = 50n;
const SPARE_BLOCKS = 64n;
/** The kernel's own mark is never above that. */
const FREE_SHARE = 4n;

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
 * The table that the pool should have by its devices and settings.
 *
 * @param dataBytes what it may use of the data device: at most those before the label
 */
export async function wantedTable(
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
  #hasToldNoRoom = false;

  constructor(private readonly deps: GrowthDependencies) {}

  /**
   * Cheap while there is nothing to do. FAILED_PRECONDITION if the devices are not, or not large enough
   * for, those of the active pool: it goes on as it is.
   */
  async step(): Promise<void> {
    await this.deps.queue.run(() => this.#step());
  }

  async #step(): Promise<void> {
    const { pool } = this.deps;
    const status = await pool.status();
    // Nothing grows in a pool that has failed or has to be checked.
    if (status.mode === 'fail' || status.mode === 'error' || status.needsCheck) return;
    if (isMetadataShort(status)) await this.#growMetadata();
    const device = await pool.find();
    const [target] = device?.targets ?? [];
    if (target === undefined) return;
    // One after the other: more data takes metadata, and may not come in the way of it.
    await this.#takeUpMetadata(target);
    await this.#takeUpData(target);
  }

  /** And changed settings. As much of the data device is used as before. */
  async #takeUpMetadata(target: DmTarget): Promise<void> {
    const { pool } = this.deps;
    const wanted = await this.#table(target.lengthSectors * SECTOR_BYTES);
    this.#assertSamePool(target.table, wanted.table);
    const { totalMetadataBlocks } = await pool.status();
    const hasRoom = (await this.#metadataBlocks()) <= totalMetadataBlocks;
    if (target.table === wanted.table && hasRoom) return;
    await pool.replace(wanted);
  }

  async #takeUpData(target: DmTarget): Promise<void> {
    const { opened, pool } = this.deps;
    const place = labelOffset(await deviceSizeBytes(opened.dataPath));
    const { sizeSectors } = await this.#table(place);
    if (sizeSectors > target.lengthSectors) {
      await this.#makeRoom((sizeSectors - target.lengthSectors) * SECTOR_BYTES);
    }
    const wanted = await this.#table(labelOffset(await this.#label()));
    if (wanted.sizeSectors !== target.lengthSectors) await pool.replace(wanted);
  }

  /**
   * FAILED_PRECONDITION if the metadata has no room to count so much more data: the kernel would find out
   * half way, and the pool would have to be checked offline.
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
            'first; the pool goes on with the data that it has',
        );
      }
      const [target] = (await pool.find())?.targets ?? [];
      if (target !== undefined) await this.#takeUpMetadata(target);
      status = await pool.status();
    }
  }

  #table(dataBytes: bigint): Promise<PoolTable> {
    const { opened, dataBlockBytes, features } = this.deps;
    return wantedTable(opened, dataBytes, dataBlockBytes, features);
  }

  /** A disk may come up under the path of another while the pool is active. */
  #assertSamePool(active: string, wanted: string): void {
    if (isSamePool(active, wanted)) return;
    throw CsiError.failedPrecondition(
      `pool '${this.deps.pool.pool}' is active with the table '${active}', and the paths of its devices ` +
        `would make it '${wanted}' now: nothing was changed; let them lead to the pool's devices again`,
    );
  }

  /** Whether it has grown. A storage that has no room is told once, until it has. */
  async #growMetadata(): Promise<boolean> {
    const { pool, devices, onEvent } = this.deps;
    try {
      if (!(await devices.growMetadata())) return false;
      onEvent({ level: 'info', message: `the metadata of pool '${pool.pool}' has been enlarged` });
      this.#hasToldNoRoom = false;
      return true;
    } catch (thrown) {
      const { code, message } = CsiError.from(thrown);
      if (code !== StatusCode.RESOURCE_EXHAUSTED) throw thrown;
      if (!this.#hasToldNoRoom) onEvent({ level: 'warn', message });
      this.#hasToldNoRoom = true;
      return false;
    }
  }

  /**
   * Moves the label to the end of a data device that has grown, and tells by which size it stands there.
   * Whoever is killed here leaves it where the ledger says, and out of the reach of the pool's table.
   */
  async #label(): Promise<bigint> {
    const { ledger, opened, pool } = this.deps;
    const { uuid: poolUuid, labelledBytes } = await ledger.pool();
    const deviceBytes = await deviceSizeBytes(opened.dataPath);
    if (labelledBytes === null || deviceBytes < labelledBytes) {
      throw CsiError.failedPrecondition(
        `${opened.dataPath} has ${deviceBytes} bytes and had ${labelledBytes} when pool '${pool.pool}' was ` +
          'labelled: devices of a pool only grow; give it back its size',
      );
    }
    if (labelOffset(deviceBytes) === labelOffset(labelledBytes)) return labelledBytes;
    const from = { poolUuid, deviceBytes: labelledBytes };
    await moveLabel(pool.pool, opened.dataPath, from, deviceBytes);
    await ledger.setLabelledBytes(deviceBytes);
    return deviceBytes;
  }

  async #metadataBlocks(): Promise<bigint> {
    const bytes = await deviceSizeBytes(this.deps.opened.metadataPath);
    return (bytes < METADATA_MAXIMUM ? bytes : METADATA_MAXIMUM) / METADATA_BLOCK_BYTES;
  }
}

/** Less than a quarter of the metadata is free. */
export function isMetadataShort(status: ThinPoolStatus): boolean {
  return freeMetadataBlocks(status) * FREE_SHARE < status.totalMetadataBlocks;
}

function freeMetadataBlocks({ usedMetadataBlocks, totalMetadataBlocks }: ThinPoolStatus): bigint {
  return totalMetadataBlocks - usedMetadataBlocks;
}

/** To count so many blocks of data more, at most. */
function metadataBlocksFor(dataBlocks: bigint): bigint {
  const counts = dataBlocks / COUNTED_BLOCKS;
  return counts + counts / SPARE_SHARE + SPARE_BLOCKS;
}
