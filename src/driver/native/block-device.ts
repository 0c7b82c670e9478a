/**
 * Instant ioctls of fixed size on loop devices, on the main thread.
 *
 * The `ioctl` package is not context-aware (it loads in one thread only), does not check buffer
 * sizes and aborts the process on a wrong argument type. Nothing else in the plugin may import it,
 * and every call here passes an integer fd, a uint32 request, and a Buffer of exactly the size the
 * kernel writes. An ioctl that can block belongs in the addon.
 */
import { open } from 'node:fs/promises';
import { errorCode, SystemError } from '../../base/errors.js';
import { loadPackage } from '../../base/system/binaries.js';

type Ioctl = (fd: number, request: number, argument: Buffer) => number;
const ioctl = loadPackage('ioctl') as Ioctl;

/** LOOP_CLR_FD (linux/loop.h). Takes no argument. */
const LOOP_CLR_FD = 0x4c01;

/**
 * Detaches a loop device through an open descriptor, so that its number cannot be reused between a check and the call. If other
 * processes have the device open, the kernel detaches it at their last close.
 */
export function detachOpenLoop({ fd }: { fd: number }, path: string): void {
  try {
    ioctl(fd, LOOP_CLR_FD, Buffer.alloc(8));
  } catch (thrown) {
    const code = errorCode(thrown) ?? 'EIO';
    throw new SystemError(code, 'LOOP_CLR_FD', path, `LOOP_CLR_FD on ${path} failed: ${code}`);
  }
}

/** LOOP_GET_STATUS64, and struct loop_info64 (linux/loop.h). */
const LOOP_GET_STATUS64 = 0x4c05;
const LOOP_INFO_BYTES = 232;
const LO_RDEVICE = 16;

/**
 * st_rdev of the block device that a loop device is attached to; 0 if it is attached to a file. The kernel asks the backing
 * file's own file system, so this is only for files that are known to be local.
 */
export async function loopBackingDevice(loopPath: string): Promise<number> {
  const handle = await open(loopPath, 'r');
  const info = Buffer.alloc(LOOP_INFO_BYTES);
  try {
    ioctl(handle.fd, LOOP_GET_STATUS64, info);
  } catch (thrown) {
    const code = errorCode(thrown) ?? 'EIO';
    const message = `LOOP_GET_STATUS64 on ${loopPath} failed: ${code}`;
    throw new SystemError(code, 'LOOP_GET_STATUS64', loopPath, message);
  } finally {
    await handle.close();
  }
  return Number(info.readBigUInt64LE(LO_RDEVICE));
}
