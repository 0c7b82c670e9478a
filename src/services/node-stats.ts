/**
 * Usage of a volume where it is staged or published: bytes and inodes of a file system, the size of
 * a raw device.
 *
 * Takes no lock: orchestrators ask every minute, and must neither be turned away while a volume is
 * worked on nor turn that work away. Instead the answer is thrown away if the mount changed meanwhile.
 */
import { statfs } from 'node:fs/promises';
import type { ResponseMessage } from '../csi/service.js';
import { CsiError } from '../errors.js';
import { topMount } from '../mount/mounter.js';
import { deviceSizeBytes } from '../native/block-device.js';
import type { VolumeRecord } from '../volumes/records.js';
import { hasVolumeCondition } from './capabilities.js';
import { findUse, type NodeDependencies, type Occupant, viewVolume } from './node-volume.js';

/**
 * NOT_FOUND if the volume is not staged or published at the path, which may be any string. Of a volume
 * in a bad condition the usage may be left out.
 */
export async function volumeStats(
  deps: NodeDependencies,
  volume: VolumeRecord,
  volumePath: string,
): Promise<ResponseMessage> {
  const view = await viewVolume(deps, volume);
  const found = await findUse(view, volumePath);
  if (found.kind !== 'mount' && found.kind !== 'block') throw notThere(volume, volumePath);
  const condition = hasVolumeCondition(deps.config) ? await deps.conditionOf?.(volume) : undefined;
  const usage = await usageOf(found).catch((thrown: unknown) => {
    if (condition?.abnormal === true) return [];
    throw thrown;
  });
  if (usage === null) throw notThere(volume, volumePath);
  return condition === undefined ? { usage } : { usage, volume_condition: condition };
}

/** Null if the mount is gone meanwhile: these would be the figures of the directory below. */
async function usageOf(
  found: Exclude<Occupant, { kind: 'nothing' }>,
): Promise<ResponseMessage[] | null> {
  const { mountPoint, mountId } = found.entry;
  if (found.kind === 'block') {
    const total = await deviceSizeBytes(mountPoint);
    return [{ total: total.toString(), unit: 'BYTES' }];
  }
  const usage = await fileSystemUsage(mountPoint);
  return (await topMount(mountPoint))?.mountId === mountId ? usage : null;
}

function notThere(volume: VolumeRecord, volumePath: string): CsiError {
  return CsiError.notFound(
    `volume ${volume.volumeId} is neither staged nor published at ${volumePath}`,
  );
}

async function fileSystemUsage(path: string): Promise<ResponseMessage[]> {
  const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(path, { bigint: true });
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
