/**
 * Parses the header of a qcow2 image. No QEMU program opens an image before this file has accepted the header of every
 * image in the chain, because a header could make QEMU read another file in place of an image.
 *
 * This file accepts only what this program writes: version 3, without encryption or external data, and based on no
 * image or on a qcow2 image in the same directory, whose name is a plain file name.
 */
import { constants } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { CsiError, printable } from '../../base/errors.js';
import { withFile } from '../../base/system/checked-files.js';
import { openPlain } from './plain-file.js';

export interface ImageHeader {
  /** The size of the device in the image. */
  readonly sizeBytes: bigint;
  /** QEMU writes multiples of it as they are. It completes anything smaller from the image below. */
  readonly blockBytes: bigint;
  /** The name of the base, a file in the same directory; null for a full image. */
  readonly backing: string | null;
}

const MAGIC = 0x514649fb;
const VERSION = 3;
const FIXED_BYTES = 104;
/** QEMU reads names of up to 1023 bytes, and header extensions only from the first cluster. */
const NAME_MAX_BYTES = 1023;
export const HEADER_MAX_BYTES = 64 * 1024;
const BACKING_FORMAT = 0xe2792aca;
const CLUSTER_BITS = { min: 9, max: 21 };
/** Bits of the incompatible features. */
const EXTERNAL_DATA = 4n;
const SUBCLUSTERS = 16n;
/** Dirty, corrupt, external data, compression type (which only says how compressed clusters are read), subclusters. */
const KNOWN_FEATURES = 1n | 2n | EXTERNAL_DATA | 8n | SUBCLUSTERS;
/** In each cluster, if the image has any. */
const SUBCLUSTER_COUNT = 32n;

/** Throws NOT_FOUND if there is no such file, FAILED_PRECONDITION if the file is no image that this program writes. */
export async function readImageHeader(path: string): Promise<ImageHeader> {
  return withFile(openPlain(path), (file) => headerOf(file, path));
}

/** Opens an image after its header is accepted. Throws like readImageHeader. */
export async function openImage(path: string, writes: boolean): Promise<FileHandle> {
  const file = await openPlain(path, writes ? constants.O_RDWR : constants.O_RDONLY);
  try {
    await headerOf(file, path);
    return file;
  } catch (thrown) {
    await file.close();
    throw thrown;
  }
}

async function headerOf(file: FileHandle, path: string): Promise<ImageHeader> {
  const bytes = Buffer.alloc(HEADER_MAX_BYTES);
  const { bytesRead } = await file.read(bytes, 0, HEADER_MAX_BYTES, 0);
  return parseHeader(bytes.subarray(0, bytesRead), path);
}

export function parseHeader(bytes: Buffer, path: string): ImageHeader {
  if (bytes.length < FIXED_BYTES || bytes.readUInt32BE(0) !== MAGIC) {
    throw refused(path, 'is not a qcow2 image');
  }
  if (bytes.readUInt32BE(4) !== VERSION) {
    throw refused(path, `is a qcow2 image of version ${bytes.readUInt32BE(4)}; expected ${VERSION}`);
  }
  const clusterBits = bytes.readUInt32BE(20);
  if (clusterBits < CLUSTER_BITS.min || clusterBits > CLUSTER_BITS.max) {
    throw refused(path, `has clusters of 2^${clusterBits} bytes, which no qcow2 image has`);
  }
  if (bytes.readUInt32BE(32) !== 0) throw refused(path, 'is encrypted');
  if (bytes.readUInt32BE(60) !== 0) throw refused(path, 'has internal snapshots');
  const features = bytes.readBigUInt64BE(72);
  if ((features & ~KNOWN_FEATURES) !== 0n) {
    throw refused(path, `has unknown features (0x${features.toString(16)})`);
  }
  if ((features & EXTERNAL_DATA) !== 0n) throw refused(path, 'has its data in another file');
  const clusterBytes = 1n << BigInt(clusterBits);
  return {
    sizeBytes: bytes.readBigUInt64BE(24),
    blockBytes: (features & SUBCLUSTERS) === 0n ? clusterBytes : clusterBytes / SUBCLUSTER_COUNT,
    backing: backingName(bytes.subarray(0, Number(clusterBytes)), path),
  };
}

function backingName(bytes: Buffer, path: string): string | null {
  const offset = bytes.readBigUInt64BE(8);
  const length = bytes.readUInt32BE(16);
  if (offset === 0n) return null;
  if (length === 0 || length > NAME_MAX_BYTES || offset + BigInt(length) > BigInt(bytes.length)) {
    throw refused(path, 'has a damaged header: the name of the image it is based on lies outside');
  }
  const start = Number(offset);
  const name = bytes.subarray(start, start + length).toString('utf8');
  if (!isPlainName(name)) {
    throw refused(path, `is based on '${printable(name, 200)}', which is not the plain name of a file beside it`);
  }
  if (backingFormat(bytes) !== 'qcow2') {
    throw refused(path, `does not say that ${name}, which it is based on, is a qcow2 image`);
  }
  return name;
}

/** Whether QEMU sees neither a path nor a protocol in the name, such as nbd: or json:. */
export function isPlainName(name: string): boolean {
  return name !== '' && name !== '.' && name !== '..' && !/[/:\0]/.test(name);
}

/** Reads the format from the header extensions, which follow the header. */
function backingFormat(bytes: Buffer): string | null {
  let position = bytes.readUInt32BE(100);
  while (position + 8 <= bytes.length) {
    const type = bytes.readUInt32BE(position);
    const length = bytes.readUInt32BE(position + 4);
    const start = position + 8;
    if (type === 0 || start + length > bytes.length) return null;
    if (type === BACKING_FORMAT) return bytes.subarray(start, start + length).toString('latin1');
    position = start + Math.ceil(length / 8) * 8;
  }
  return null;
}

function refused(path: string, what: string): CsiError {
  return CsiError.failedPrecondition(
    `the image ${path} ${what}; restore the file from another copy, or make a new full backup`,
  );
}
