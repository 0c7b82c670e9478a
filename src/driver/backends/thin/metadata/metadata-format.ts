/**
 * Whether the kernel may format a pool's devices. The kernel itself formats every metadata device that begins with 4 KiB of
 * zeros; this file requires more zeros, on both devices, and never lets a pool be formatted twice.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { CsiError, errorCode, insteadOf } from '../../../../base/errors.js';
import type { ThinSuperblock } from '../../../native/thin-addon.js';
import type { PoolRecord } from '../ledger/ledger.js';
import { assertLabel, labelBlock, labelOffset } from '../pool/device-label.js';
import type { OpenDevices } from '../pool/pool-devices.js';

/** Checked at both ends of a device, where partition tables, RAIDs and file systems have their signatures. */
const CHECKED_BYTES = 1n << 20n;

/** Reads the superblock, bypassing the page cache. Rejects with the error of thinSuperblock. */
export type ReadSuperblock = () => Promise<ThinSuperblock>;

export interface FormatFindings {
  pool: string;
  record: PoolRecord;
  devices: OpenDevices;
  /** Whether the plugin created the devices, so that nobody else can have written to them. */
  areOurs: boolean;
  readSuperblock: ReadSuperblock;
  /** Whether the metadata has any thin device. Called only if it has a superblock. */
  hasThinDevices(): Promise<boolean>;
  /** Size of a device, bytes. */
  sizeOf(path: string): Promise<bigint>;
}

/**
 * empty: the devices are empty, except for the remains of an interrupted format; formatted: the kernel
 * completed a format that was interrupted before the ledger recorded it. FAILED_PRECONDITION otherwise.
 */
export async function assertFormattable(findings: FormatFindings): Promise<'empty' | 'formatted'> {
  const { pool, record, devices, readSuperblock } = findings;
  const found = await readSuperblock().catch(insteadOf(['THIN_METADATA_INVALID'], null));
  if (found === null) {
    await assertEmpty(findings);
    return 'empty';
  }
  const { uuid: poolUuid, labelledBytes: deviceBytes } = record;
  const isOurs =
    record.state === 'formatting' &&
    deviceBytes !== null &&
    isPristine(found, record.dataBlockBytes, labelOffset(deviceBytes)) &&
    !(await findings.hasThinDevices());
  if (!isOurs) {
    throw CsiError.failedPrecondition(
      `${devices.metadataPath} holds the metadata of a thin pool that is not pool '${pool}': use another ` +
        'device, or if that pool is no longer needed, overwrite the first MiB of its metadata device with zeros',
    );
  }
  await assertLabel(pool, devices.dataPath, { poolUuid, deviceBytes });
  return 'formatted';
}

/** Whether nothing has happened in the metadata since the kernel formatted it, except a resize. */
function isPristine(found: ThinSuperblock, dataBlockBytes: bigint, dataBytes: bigint): boolean {
  const isUnused = found.transactionId === 0n && found.time === 0 && found.heldRoot === null;
  const isFitting = found.dataBlocks * found.dataBlockBytes <= dataBytes;
  return isUnused && found.dataBlockBytes === dataBlockBytes && isFitting;
}

async function assertEmpty(findings: FormatFindings): Promise<void> {
  const { pool, record, devices, areOurs, sizeOf } = findings;
  const { metadataPath, dataPath } = devices;
  const isInterrupted = record.state === 'formatting';
  const dataBytes = await sizeOf(dataPath);
  const label = labelBlock({ poolUuid: record.uuid, deviceBytes: dataBytes });
  // An interrupted format leaves blocks without a superblock. Only the plugin's own files are certainly the devices that were
  // empty then.
  const isExempt = isInterrupted && areOurs;
  const isMetadataEmpty = isExempt || (await hasZeroEnds(metadataPath, await sizeOf(metadataPath), null));
  const isDataEmpty = await hasZeroEnds(dataPath, dataBytes, isInterrupted ? label : null);
  if (isMetadataEmpty && isDataEmpty) return;
  const path = isMetadataEmpty ? dataPath : metadataPath;
  const hint = isInterrupted ? ' It may hold the remains of a format that was interrupted.' : '';
  throw CsiError.failedPrecondition(
    `${path} is not empty, so no pool is created on it: the first MiB and the last two of both devices of ` +
      `pool '${pool}' have to be zeros.${hint} If nothing on it is needed, run blkdiscard --zeroout on it`,
  );
}

/**
 * The superblock of a pool that was formatted. FAILED_PRECONDITION if there is none: the kernel would
 * format the device.
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

/** @param label a label to accept at the offset of labels; null if only zeros are accepted */
async function hasZeroEnds(path: string, sizeBytes: bigint, label: Buffer | null): Promise<boolean> {
  const handle = await open(path, 'r');
  try {
    const head = await readWhole(handle, 0n, sizeBytes < CHECKED_BYTES ? sizeBytes : CHECKED_BYTES);
    const end = labelOffset(sizeBytes);
    const tail = await readWhole(handle, end, sizeBytes - end);
    if (head === null || tail === null) return false;
    if (label?.equals(tail.subarray(0, label.length))) tail.fill(0, 0, label.length);
    return isZero(head) && isZero(tail);
  } finally {
    await handle.close();
  }
}

/** Null if the device ends before. */
async function readWhole(handle: FileHandle, offset: bigint, length: bigint): Promise<Buffer | null> {
  const buffer = Buffer.alloc(Number(length));
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, Number(offset));
  return bytesRead === buffer.length ? buffer : null;
}

function isZero(buffer: Buffer): boolean {
  return buffer.equals(Buffer.alloc(buffer.length));
}
