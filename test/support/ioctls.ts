/** The few ioctls tests need: fixed sizes, main thread (see src/driver/native/block-device.ts on the package). */
import { closeSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';

const ioctl = createRequire(import.meta.url)('ioctl') as (
  fd: number,
  request: number,
  argument: Buffer | number,
) => number;

/** struct dm_ioctl; behind it the sector that the message is for, and the message. */
const DM_IOCTL_BYTES = 312;
const DM_TARGET_MSG = 0xc138fd0e;
const LOOP_CLR_FD = 0x4c01;
const LOOP_GET_STATUS64 = 0x4c05;
const LOOP_INFO64_BYTES = 232;
/** The field lo_file_name. */
const LO_FILE_NAME = 56;
/** Without the NUL behind it. */
export const LO_NAME_LENGTH = 63;
const LOOP_CTL_REMOVE = 0x4c81;
const BLKROSET = 0x125d;
const BLKDISCARD = 0x1277;
const BLKZEROOUT = 0x127f;
const BLKFLSBUF = 0x1261;
const FICLONERANGE = 0x4020940d;
const FS_IOC_GETFLAGS = 0x80086601;
const FS_IOC_SETFLAGS = 0x40086602;
export const FS_IMMUTABLE_FL = 0x10;

function words(...values: (number | bigint)[]): Buffer {
  const buffer = Buffer.alloc(values.length * 8);
  values.forEach((value, index) => {
    buffer.writeBigUInt64LE(BigInt(value), index * 8);
  });
  return buffer;
}

export function blockDiscard(fd: number, offset: number, length: number): void {
  ioctl(fd, BLKDISCARD, words(offset, length));
}

export function blockZeroOut(fd: number, offset: number, length: number): void {
  ioctl(fd, BLKZEROOUT, words(offset, length));
}

/** Writes the page cache of a block device out and empties it, without asking the disk to flush its own. */
export function flushCache(fd: number): void {
  ioctl(fd, BLKFLSBUF, 0);
}

/** Detaches a loop device, now or at its last close; what it does not give up of itself is reset: it is writable. */
export function clearLoop(fd: number): void {
  ioctl(fd, BLKROSET, words(0));
  ioctl(fd, LOOP_CLR_FD, 0);
}

/**
 * The file below a loop device: its numbers, as stat(2) has them, and the name by which it was attached, of which the kernel keeps
 * LO_NAME_LENGTH bytes. Throws if there is none.
 */
export function fileBelowLoop(fd: number): { dev: bigint; ino: bigint; name: string } {
  const info = Buffer.alloc(LOOP_INFO64_BYTES);
  ioctl(fd, LOOP_GET_STATUS64, info);
  const name = info.subarray(LO_FILE_NAME, LO_FILE_NAME + LO_NAME_LENGTH);
  return { dev: info.readBigUInt64LE(0), ino: info.readBigUInt64LE(8), name: name.toString().replace(/\0.*/s, '') };
}

/** Gives a loop device's number up, which is made anew when somebody wants it. Throws EBUSY if it is attached. */
export function removeLoopNumber(controlFd: number, number: number): void {
  ioctl(controlFd, LOOP_CTL_REMOVE, number);
}

/** Both files open for writing; whole blocks. */
export function cloneRange(
  from: { fd: number; offset: number },
  to: { fd: number; offset: number },
  length: number,
): void {
  ioctl(to.fd, FICLONERANGE, words(from.fd, from.offset, length, to.offset));
}

/** Sets or clears inode flags of an open file. */
export function changeFlags(fd: number, flag: number, set: boolean): void {
  // The kernel reads and writes an int; the number says long.
  const buffer = Buffer.alloc(8);
  ioctl(fd, FS_IOC_GETFLAGS, buffer);
  const flags = buffer.readUInt32LE(0);
  buffer.writeUInt32LE((set ? flags | flag : flags & ~flag) >>> 0, 0);
  ioctl(fd, FS_IOC_SETFLAGS, buffer);
}

export function setImmutable(path: string, immutable: boolean): void {
  const fd = openSync(path, 'r');
  try {
    changeFlags(fd, FS_IMMUTABLE_FL, immutable);
  } finally {
    closeSync(fd);
  }
}

/** Sends a message to the one target of a device-mapper device, through an open /dev/mapper/control. */
export function sendDeviceMapperMessage(controlFd: number, name: string, message: string): void {
  const request = Buffer.alloc(DM_IOCTL_BYTES + 8 + message.length + 1);
  request.writeUInt32LE(4, 0);
  request.writeUInt32LE(request.length, 12);
  request.writeUInt32LE(DM_IOCTL_BYTES, 16);
  request.write(name, 48);
  request.write(message, DM_IOCTL_BYTES + 8);
  ioctl(controlFd, DM_TARGET_MSG, request);
}
