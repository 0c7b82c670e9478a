/**
 * The table line of a thin-pool target, in the form that the kernel accepts and reports. Format: Linux
 * Documentation/admin-guide/device-mapper/thin-provisioning.rst.
 */

/** Settings of a pool. All of them can be changed later. */
export interface PoolFeatures {
  /** Pass discards of unshared blocks down to the data device. */
  passDiscards: boolean;
  /** Fail writes at once when no space is left, instead of after waiting a minute. */
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
/** The most of a metadata device that the kernel uses: 255 bitmaps of 16,320 blocks of 4 KiB. */
export const METADATA_MAXIMUM = 255n * 16_320n * 4096n;

const NO_PASSDOWN = 'no_discard_passdown';

export function poolTable(
  /** dataBytes: how much of the data device the pool may use. */
  devices: { metadata: string; data: string; dataBytes: bigint },
  dataBlockBytes: bigint,
  features: PoolFeatures,
): PoolTable {
  const { metadata, data } = devices;
  const blocks = devices.dataBytes / dataBlockBytes;
  const blockSectors = dataBlockBytes / SECTOR_BYTES;
  const lowWater = (blocks * features.lowWaterPercent) / 100n;
  // The kernel reports the words in this order. Zeroing of new blocks stays on.
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

/** Whether a pool with this table passes discards down to the data device. */
export function passesDown(table: string): boolean {
  return !table.split(' ').includes(NO_PASSDOWN);
}

/** Whether two tables have the same devices and block size, so that one may replace the other. */
export function isSamePool(a: string, b: string): boolean {
  const head = (table: string) => table.split(' ').slice(0, 3).join(' ');
  return head(a) === head(b);
}
