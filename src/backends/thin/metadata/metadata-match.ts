/**
 * Whether a pool's metadata device is the one that its ledger belongs to. The metadata has no room for a
 * label, so this goes by what a start finds there. Judgement alone: nothing is asked or changed here.
 */
import { CsiError } from '../../../base/errors.js';
import type { ThinDeviceDetails, ThinSuperblock } from '../../../native/thin-addon.js';
import type { DeviceRecord, OpenTransaction, PoolRecord } from '../ledger/ledger.js';

/** FAILED_PRECONDITION if its blocks are others, or more than the pool's label leaves it. */
export function assertFits(
  pool: string,
  record: PoolRecord,
  superblock: ThinSuperblock,
  dataBytes: bigint,
): void {
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
 * FAILED_PRECONDITION if it has devices that the ledger does not know and lacks some that it knows: one
 * of the two alone is what another tool leaves behind that makes devices, or deletes some.
 */
export function assertSameDevices(
  pool: string,
  known: { devices: readonly DeviceRecord[]; transaction: OpenTransaction | null },
  found: readonly ThinDeviceDetails[],
): void {
  const { devices, transaction } = known;
  const name = (id: number, madeAt: bigint) => `${id} of transaction ${madeAt}`;
  const there = new Set(found.map((one) => name(one.deviceId, one.transactionId)));
  // What is being made or deleted may be there or not.
  const lost = devices
    .filter(({ state }) => state === 'live')
    .map(({ deviceId, madeAt }) => name(deviceId, madeAt))
    .filter((one) => !there.has(one));
  const ours = [...devices, ...(transaction?.creates ?? [])];
  const expected = new Set(ours.map(({ deviceId, madeAt }) => name(deviceId, madeAt)));
  const strange = [...there].filter((one) => !expected.has(one));
  if (lost.length === 0 || strange.length === 0) return;
  throw CsiError.failedPrecondition(
    `the metadata of pool '${pool}' lacks ${lost.length} thin devices that its ledger knows (${lost[0]}) and ` +
      `has ${strange.length} that it does not (${strange[0]}): it is of another pool, or of another ` +
      "time; name the pool's own metadata device in BLOCKDELTA_POOLS. If it is the right one, activate " +
      'the pool by hand and delete the devices that the ledger does not know',
  );
}
