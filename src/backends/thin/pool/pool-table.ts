/**
 * The table line of a thin-pool target, as the kernel takes it and as it tells it. Format: Linux
 * Documentation/admin-guide/device-mapper/thin-provisioning.rst.
 */

/** What an operator may choose for a pool. None of it is fixed for ever. */
export interface PoolFeatures {
  /** Discards of volumes go on to the data device, where nobody else maps the block. */
  passDiscards: boolean;
  /** Writers that find no space get an error at once, instead of after a minute of waiting. */
  errorWhenFull: boolean;
  /** Free space below which the kernel raises an event, percent of the data device. */
  lowWaterPercent: bigint;
}

export interface PoolTable {
  /** "major:minor" of both devices. */
  metadata: string;
  data: string;
  sizeSectors: bigint;
  table: string;
}

export const SECTOR_BYTES = 512n;
/** Of a metadata device; the kernel uses 255 bitmaps of 16,320 blocks of 4 KiB, and no more. */
export const METADATA_MAXIMUM = 255n * 16_320n * 4096n;

const NO_PASSDOWN = 'no_discard_passdown';

export function poolTable(
  /** dataBytes: those that the pool may use. */
  devices: { metadata: string; data: string; dataBytes: bigint },
  dataBlockBytes: bigint,
  features: PoolFeatures,
): PoolTable {
  const { metadata, data } = devices;
  const blocks = devices.dataBytes / dataBlockBytes;
  const blockSectors = dataBlockBytes / SECTOR_BYTES;
  const lowWater = (blocks * features.lowWaterPercent) / 100n;
  // In the order in which the kernel tells them. Blocks are zeroed before their first use: that stays on.
  const words = [
    ...(features.passDiscards ? [] : [NO_PASSDOWN]),
    ...(features.errorWhenFull ? ['error_if_no_space'] : []),
  ];
  return {
    metadata,
    data,
    sizeSectors: blocks * blockSectors,
    table: [metadata, data, blockSectors, lowWater, words.length, ...words].join(' '),
  };
}

/** Whether discards of volumes go on to the data device, by a pool's table. */
export function passesDown(table: string): boolean {
  return !table.split(' ').includes(NO_PASSDOWN);
}

/** Whether two tables are of the same devices and block size, so that one may replace the other. */
export function isSamePool(a: string, b: string): boolean {
  const head = (table: string) => table.split(' ').slice(0, 3).join(' ');
  return head(a) === head(b);
}
