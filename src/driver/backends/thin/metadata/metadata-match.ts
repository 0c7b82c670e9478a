/**
 * Whether a metadata device belongs to a pool's ledger. The metadata has no room for a label, so the ledger is compared with
 * what a start finds in the metadata. Pure functions: nothing is read or changed here.
 */
import { CsiError } from '../../../../base/errors.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../../native/thin-addon.js';
import type { DeviceRecord, OpenTransaction, PoolRecord } from '../ledger/ledger.js';

/** FAILED_PRECONDITION if the block size differs, or the metadata needs more data than the device has. */
export function assertFits(pool: string, record: PoolRecord, superblock: ThinSuperblock, dataBytes: bigint): void {
  if (superblock.dataBlockBytes !== record.dataBlockBytes) {
    throw CsiError.failedPrecondition(
      `the metadata of pool '${pool}' has data blocks of ${superblock.dataBlockBytes} bytes and its ledger ` +
        `of ${record.dataBlockBytes}: they do not belong together`,
    );
  }
  const needed = superblock.dataBlocks * superblock.dataBlockBytes;
  if (dataBytes >= needed) return;
  throw CsiError.failedPrecondition(
    `the metadata of pool '${pool}' is of a pool with ${needed} bytes of data and its data device gives it ` +
      `${dataBytes}: they do not belong together; name the pool's own metadata device in BLOCKDELTA_POOLS`,
  );
}

/**
 * FAILED_PRECONDITION if the metadata has devices unknown to the ledger and also lacks devices of the ledger. One of the two
 * alone may be the work of another tool that created or deleted devices.
 */
export function assertSameDevices(
  pool: string,
  known: { devices: readonly DeviceRecord[]; transaction: OpenTransaction | null },
  found: readonly ThinDeviceDetails[],
): void {
  const { devices, transaction } = known;
  const name = (id: number, madeAt: bigint) => `${id} of transaction ${madeAt}`;
  const present = new Set(found.map((one) => name(one.deviceId, one.transactionId)));
  // Devices being created or deleted may or may not exist.
  const lost = devices
    .filter(({ state }) => state === 'live')
    .map(({ deviceId, madeAt }) => name(deviceId, madeAt))
    .filter((one) => !present.has(one));
  const ours = [...devices, ...(transaction?.creates ?? [])];
  const expected = new Set(ours.map(({ deviceId, madeAt }) => name(deviceId, madeAt)));
  const foreign = [...present].filter((one) => !expected.has(one));
  if (lost.length === 0 || foreign.length === 0) return;
  throw CsiError.failedPrecondition(
    `the metadata of pool '${pool}' lacks ${lost.length} thin devices that its ledger knows (${lost[0]}) and ` +
      `has ${foreign.length} that it does not (${foreign[0]}): it belongs to another pool, or is ` +
      "an older or newer copy; name the pool's own metadata device in BLOCKDELTA_POOLS. If it is the right one, activate " +
      'the pool by hand and delete the devices that the ledger does not know',
  );
}
