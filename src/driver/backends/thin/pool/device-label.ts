/**
 * The label of a pool's data device: a line of text that names the pool its blocks belong to. A path may
 * lead to another disk after a reboot, and nothing else on a data device identifies it.
 *
 * The label is at the beginning of the last whole MiB of the device; the pool's table ends before it. The
 * ledger stores the device size that determines this offset. When the device grows, the label is written at
 * the new offset, then the ledger is updated, and only then does the pool use the old place
 * (pool-growth.ts). Knows no pool and no table.
 */
import { type FileHandle, open } from 'node:fs/promises';
import { CsiError } from '../../../../base/errors.js';

const MIB = 1n << 20n;
const LABEL_BYTES = 4096;

export interface Label {
  poolUuid: string;
  /** Size of the device when the label was written; determines its offset (labelOffset). */
  deviceBytes: bigint;
}

/** Offset of the label, which is also how many bytes of the device the pool may use. */
export function labelOffset(deviceBytes: bigint): bigint {
  return deviceBytes < MIB ? 0n : (deviceBytes / MIB - 1n) * MIB;
}

export function labelBlock({ poolUuid, deviceBytes }: Label): Buffer {
  const block = Buffer.alloc(LABEL_BYTES);
  block.write(`blockdelta 1 data of pool ${poolUuid} in ${deviceBytes} bytes\n`, 'latin1');
  return block;
}

/** The label is durable, and was verified by reading it back, when the promise resolves. */
export async function writeLabel(path: string, label: Label): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    await writeBlock(handle, path, label);
  } finally {
    await handle.close();
  }
}

/**
 * Checks the label `from` of a device that has grown, and writes the new label through the same descriptor, wherever the path
 * leads meanwhile. FAILED_PRECONDITION, without a write, unless the device has exactly the label `from`.
 */
export async function moveLabel(pool: string, path: string, from: Label, deviceBytes: bigint): Promise<void> {
  const handle = await open(path, 'r+');
  try {
    await assertBlock(handle, pool, path, from);
    await writeBlock(handle, path, { poolUuid: from.poolUuid, deviceBytes });
  } finally {
    await handle.close();
  }
}

async function writeBlock(handle: FileHandle, path: string, label: Label): Promise<void> {
  const block = labelBlock(label);
  const position = Number(labelOffset(label.deviceBytes));
  await handle.write(block, 0, LABEL_BYTES, position);
  await handle.sync();
  if (block.equals(await readBlock(handle, position))) return;
  throw CsiError.failedPrecondition(
    `${path} does not return the label that was written to it at byte ${position}: the device is broken; ` +
      'replace it',
  );
}

/** FAILED_PRECONDITION unless the device has exactly this label. */
export async function assertLabel(pool: string, path: string, label: Label): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await assertBlock(handle, pool, path, label);
  } finally {
    await handle.close();
  }
}

async function assertBlock(handle: FileHandle, pool: string, path: string, label: Label): Promise<void> {
  const position = Number(labelOffset(label.deviceBytes));
  const found = await readBlock(handle, position);
  if (found.equals(labelBlock(label))) return;
  throw CsiError.failedPrecondition(
    `${path} is not the data device of pool '${pool}': at byte ${position} it should have the label of pool ` +
      `${label.poolUuid}, but ${describe(found)}. Nothing on it was changed; name the pool's own device ` +
      'in BLOCKDELTA_POOLS, by a path that stays with the disk, such as one of /dev/disk/by-id',
  );
}

function describe(block: Buffer): string {
  if (block.length < LABEL_BYTES) return 'it ends before that';
  const owner = /^blockdelta \d+ data of pool (\S{1,64}) in (\d{1,20}) bytes\n/.exec(block.toString('latin1'));
  return owner === null ? 'there is no label' : `its label is of pool ${owner[1]}, on a device of ${owner[2]} bytes`;
}

/** The result is shorter at the end of the device. */
async function readBlock(handle: FileHandle, position: number): Promise<Buffer> {
  const block = Buffer.alloc(LABEL_BYTES);
  const { bytesRead } = await handle.read(block, 0, LABEL_BYTES, position);
  return block.subarray(0, bytesRead);
}
