/**
 * What sysfs says about a block device, by its device number.
 *
 * The label (the backing file of a loop device, the name of a dm device) is a hint for cases in which the identity can no
 * longer be asked for, such as a backing file that was removed while mounted. The label is not proof: never use it to choose
 * a device to detach or to write to.
 */
import { readFile, stat } from 'node:fs/promises';
import { insteadOf, SystemError } from '../errors.js';
import { majorOf, minorOf } from './mountinfo.js';

/** The unit of sizes in sysfs, whatever the device's own sectors are. */
const SECTOR_BYTES = 512n;

export interface DeviceNumber {
  major: number;
  minor: number;
}

export const deviceNumberOf = ({ rdev }: { rdev: number }): DeviceNumber => ({
  major: majorOf(rdev),
  minor: minorOf(rdev),
});

/** The label; null for a device that is gone, or that is neither a loop device nor a dm device. */
export async function deviceLabel(device: DeviceNumber): Promise<string | null> {
  const labels = ['loop/backing_file', 'dm/name'];
  const [file, name] = await Promise.all(labels.map((label) => attribute(device, label)));
  return file ?? name ?? null;
}

/** Whether the kernel refuses to open the device for writing. */
export async function isDeviceReadOnly(device: DeviceNumber): Promise<boolean> {
  return (await attribute(device, 'ro')) === '1';
}

/** The size of the device; null for a device that is gone. */
export async function deviceSizeBytes(device: DeviceNumber): Promise<bigint | null> {
  const sectors = await attribute(device, 'size');
  return sectors === null ? null : BigInt(sectors) * SECTOR_BYTES;
}

/** The size of the block device at a path. Rejects with ENXIO for anything else, and for a device that is gone. */
export async function sizeOfDeviceAt(path: string): Promise<bigint> {
  const found = await stat(path);
  const bytes = found.isBlockDevice() ? await deviceSizeBytes(deviceNumberOf(found)) : null;
  if (bytes !== null) return bytes;
  throw new SystemError('ENXIO', 'stat', path, `${path} is no block device, or its device is gone`);
}

/** The size of a logical block, which is the smallest write that the device takes. Null for a device that is gone. */
export async function deviceSectorBytes(device: DeviceNumber): Promise<number | null> {
  const bytes = await queueAttribute(device, 'logical_block_size');
  return bytes === null ? null : Number(bytes);
}

/** Whether the device says that it takes discards. */
export async function takesDiscards(device: DeviceNumber): Promise<boolean> {
  const bytes = await queueAttribute(device, 'discard_max_bytes');
  return bytes !== null && bytes !== '0';
}

/** A partition has the queue of its disk. */
async function queueAttribute(device: DeviceNumber, name: string): Promise<string | null> {
  return (await attribute(device, `queue/${name}`)) ?? (await attribute(device, `../queue/${name}`));
}

async function attribute(device: DeviceNumber, name: string): Promise<string | null> {
  const path = `/sys/dev/block/${device.major}:${device.minor}/${name}`;
  const text = await readFile(path, 'utf8').catch(insteadOf(['ENOENT', 'ENXIO', 'ENODEV'], null));
  return text?.trim() ?? null;
}
