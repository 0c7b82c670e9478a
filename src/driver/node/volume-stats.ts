/**
 * Usage of a volume where it is staged or published: bytes and inodes of a file system, the size of a raw device.
 *
 * Takes no lock: orchestrators ask every minute, and an operation on the volume must neither make these calls fail nor fail
 * because of them. Instead, the answer is discarded if the mount changed meanwhile. A volume that has lost its pool or its file
 * gets an answer as well, because up to CSI 1.12 its condition becomes known in this way.
 */
import type { BigIntStatsFs } from 'node:fs';
import { hasVolumeCondition } from '../../base/csi/capabilities.js';
import type { ResponseOf } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import { sizeOfDeviceAt } from '../../base/system/device-attributes.js';
import type { VolumeRecord } from '../catalogue/records.js';
import type { VolumeUsage } from '../csi/messages.js';
import { askFileSystem } from '../host/file-system-answer.js';
import { topMount } from '../host/mounter.js';
import { findRemainingUse, type Use, viewForRelease } from '../usage/volume-view.js';
import type { NodeDependencies } from './node-dependencies.js';

/**
 * NOT_FOUND if the volume is not staged or published at the path, which may be any string. The usage is left out if the file
 * system does not answer.
 */
export async function volumeStats(
  deps: NodeDependencies,
  volume: VolumeRecord,
  volumePath: string,
): Promise<ResponseOf<'NodeGetVolumeStats'>> {
  const view = await viewForRelease(deps, volume);
  const use = await findRemainingUse(view, volumePath);
  if (use === null) throw notThere(volume, volumePath);
  const [asked, condition] = await Promise.all([
    Promise.allSettled([usageOf(use)]),
    hasVolumeCondition(deps.config) ? deps.conditionOf?.(view) : undefined,
  ]);
  const [usage] = asked;
  if (condition?.abnormal !== true && usage.status === 'rejected') throw usage.reason;
  const found = usage.status === 'rejected' ? [] : usage.value;
  if (found === null) throw notThere(volume, volumePath);
  if (condition === undefined) return { usage: found };
  // The kubelet discards a condition that comes without any usage.
  const sizeAlone: VolumeUsage[] = [{ unit: 'BYTES', total: volume.sizeBytes.toString() }];
  return { usage: found.length > 0 ? found : sizeAlone, volume_condition: condition };
}

/**
 * Null if the mount is gone meanwhile, because the figures would be those of the directory below. Empty if the file system does
 * not answer.
 */
async function usageOf({ kind, entry }: Use): Promise<VolumeUsage[] | null> {
  const { mountPoint, mountId } = entry;
  if (kind === 'block') {
    const total = await sizeOfDeviceAt(mountPoint);
    return [{ total: total.toString(), unit: 'BYTES' }];
  }
  const answer = await askFileSystem(entry);
  if ((await topMount(mountPoint))?.mountId !== mountId) return null;
  if (answer === null) return [];
  if (answer.space.status === 'rejected') throw answer.space.reason;
  return usageMessages(answer.space.value);
}

function notThere(volume: VolumeRecord, volumePath: string): CsiError {
  return CsiError.notFound(`volume ${volume.volumeId} is neither staged nor published at ${volumePath}`);
}

function usageMessages(space: BigIntStatsFs): VolumeUsage[] {
  const { bsize, blocks, bfree, bavail, files, ffree } = space;
  return [
    {
      unit: 'BYTES',
      total: (blocks * bsize).toString(),
      used: ((blocks - bfree) * bsize).toString(),
      available: (bavail * bsize).toString(),
    },
    {
      unit: 'INODES',
      total: files.toString(),
      used: (files - ffree).toString(),
      available: ffree.toString(),
    },
  ];
}
