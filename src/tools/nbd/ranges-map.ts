/**
 * Writes a map of ranges: a qcow2 image that has no data of its own and takes it from another file or image, in the same
 * places. QEMU reads the ranges from there, and finds nothing elsewhere. Knows nothing of what the ranges are for.
 */
import type { FileHandle } from 'node:fs/promises';

/** A range is rounded outwards to subclusters, of which a cluster has 32. The largest cluster that QEMU opens has 2 MiB. */
const SUBCLUSTERS = 32n;
export const UNIT_MAX_BYTES = 65_536n;
const ENTRY_BYTES = 16n;
const COPIED = 1n << 63n;
/** The first clusters: the header, an empty table of reference counts, and the table of the tables that follow it. */
const HEADER_CLUSTERS = 2n;

export interface RangesMap {
  /** The size of the device, a multiple of 512 bytes. */
  sizeBytes: bigint;
  /** A power of two from 4 KiB to UNIT_MAX_BYTES. */
  unitBytes: bigint;
}

/**
 * @param file new and empty; what stays a hole in it reads as unallocated
 * @param list in ascending order
 * @returns the bytes of the map's ranges
 */
export async function writeMap(
  file: FileHandle,
  list: AsyncIterable<readonly { offset: bigint; size: bigint }[]>,
  { sizeBytes, unitBytes }: RangesMap,
): Promise<bigint> {
  const clusterBytes = unitBytes * SUBCLUSTERS;
  const tableBytes = (clusterBytes / ENTRY_BYTES) * clusterBytes;
  const tables = upTo(sizeBytes, tableBytes);
  const firstTable = HEADER_CLUSTERS + upTo(tables * 8n, clusterBytes);
  const write = (bytes: Buffer, position: bigint) => file.write(bytes, 0, bytes.length, Number(position));
  await file.truncate(Number((firstTable + tables) * clusterBytes));
  await write(header(sizeBytes, clusterBytes, tables), 0n);

  let bytes = 0n;
  let next = 0n;
  let held = { table: -1n, entries: Buffer.alloc(0) };
  const directory = Buffer.alloc(Number(tables) * 8);
  const flush = async (): Promise<void> => {
    if (held.table < 0n) return;
    const position = (firstTable + held.table) * clusterBytes;
    directory.writeBigUInt64BE(position | COPIED, Number(held.table) * 8);
    await write(held.entries, position);
  };
  for await (const batch of list) {
    for (const { offset, size } of batch) {
      const end = upTo(offset + size, unitBytes);
      for (let unit = larger(offset / unitBytes, next); unit < end; unit = next) {
        const cluster = unit / SUBCLUSTERS;
        next = smaller((cluster + 1n) * SUBCLUSTERS, end);
        const table = (cluster * clusterBytes) / tableBytes;
        if (table !== held.table) {
          await flush();
          held = { table, entries: Buffer.alloc(Number(clusterBytes)) };
        }
        const at = Number((cluster * ENTRY_BYTES) % clusterBytes);
        const bits = ((1n << (next - unit)) - 1n) << (unit % SUBCLUSTERS);
        held.entries.writeBigUInt64BE((cluster * clusterBytes) | COPIED, at);
        held.entries.writeBigUInt64BE(held.entries.readBigUInt64BE(at + 8) | bits, at + 8);
        bytes += smaller(next * unitBytes, sizeBytes) - unit * unitBytes;
      }
    }
  }
  await flush();
  await write(directory, HEADER_CLUSTERS * clusterBytes);
  return bytes;
}

/** Version 3 with external data and subclusters, but without the name of the data, which whoever opens the map gives. */
function header(sizeBytes: bigint, clusterBytes: bigint, tables: bigint): Buffer {
  const bytes = Buffer.alloc(104);
  bytes.write('QFI\xfb', 'latin1');
  bytes.writeUInt32BE(3, 4);
  bytes.writeUInt32BE(clusterBytes.toString(2).length - 1, 20);
  bytes.writeBigUInt64BE(sizeBytes, 24);
  bytes.writeUInt32BE(Number(tables), 36);
  bytes.writeBigUInt64BE(HEADER_CLUSTERS * clusterBytes, 40);
  bytes.writeBigUInt64BE(clusterBytes, 48);
  bytes.writeUInt32BE(1, 56);
  bytes.writeBigUInt64BE(0b10100n, 72);
  bytes.writeUInt32BE(4, 96);
  bytes.writeUInt32BE(bytes.length, 100);
  return bytes;
}

const upTo = (value: bigint, unit: bigint): bigint => (value + unit - 1n) / unit;
const smaller = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const larger = (a: bigint, b: bigint): bigint => (a > b ? a : b);
