/**
 * Whether a pool's devices may be handed to the kernel to be formatted. It formats whatever metadata
 * device begins with 4 KiB of zeros; here more has to be zeros, on both devices, and a pool that was
 * formatted once is never formatted again.
 */
import { open } from 'node:fs/promises';
import { CsiError, errorCode } from '../../errors.js';
import type { ThinSuperblock } from '../../native/thin-addon.js';
import type { PoolRecord } from './ledger.js';
import type { OpenDevices } from './pool-devices.js';

const CHECKED_BYTES = 1 << 20;

/** Reads the superblock, past the page cache. Rejects as thinSuperblock fails. */
export type ReadSuperblock = () => Promise<ThinSuperblock>;

/** FAILED_PRECONDITION unless the devices are empty, or hold what a formatting that was killed has made. */
export async function assertFormattable(
  pool: string,
  record: PoolRecord,
  { metadataPath, dataPath }: OpenDevices,
  readSuperblock: ReadSuperblock,
): Promise<void> {
  const found = await superblockOrNull(readSuperblock);
  if (found !== null) {
    const isNew = found.transactionId === 0n && found.time === 0 && found.heldRoot === null;
    if (record.state === 'formatting' && isNew) return;
    throw CsiError.failedPrecondition(
      `${metadataPath} holds the metadata of a thin pool that is not pool '${pool}': use another device, ` +
        'or if that pool may go for good, overwrite the first MiB of its metadata device with zeros',
    );
  }
  for (const path of [metadataPath, dataPath]) {
    if (await beginsWithZeros(path)) continue;
    throw CsiError.failedPrecondition(
      `${path} is not empty, so no pool is made on it: pool '${pool}' needs two devices that begin with a ` +
        'MiB of zeros. If nothing on it is needed, run blkdiscard --zeroout --length 1MiB on it',
    );
  }
}

/**
 * The superblock of a pool that was formatted. FAILED_PRECONDITION if there is none: the kernel is never
 * let at such a device.
 */
export async function readKnownSuperblock(
  pool: string,
  metadataPath: string,
  readSuperblock: ReadSuperblock,
): Promise<ThinSuperblock> {
  try {
    return await readSuperblock();
  } catch (thrown) {
    if (errorCode(thrown) !== 'THIN_METADATA_INVALID') throw thrown;
    throw CsiError.failedPrecondition(
      `${metadataPath} does not hold the metadata of pool '${pool}': ` +
        `${thrown instanceof Error ? thrown.message : ''}. Is it the right device? If it is damaged, ` +
        'thin_repair may help',
      { cause: thrown },
    );
  }
}

async function superblockOrNull(read: ReadSuperblock): Promise<ThinSuperblock | null> {
  try {
    return await read();
  } catch (thrown) {
    if (errorCode(thrown) === 'THIN_METADATA_INVALID') return null;
    throw thrown;
  }
}

async function beginsWithZeros(path: string): Promise<boolean> {
  const handle = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(
      Buffer.alloc(CHECKED_BYTES),
      0,
      CHECKED_BYTES,
      0,
    );
    return buffer.subarray(0, bytesRead).every((byte) => byte === 0);
  } finally {
    await handle.close();
  }
}
