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
import { kernelPath } from '../mount/target.js';
import { deviceSizeBytes } from '../native/block-device.js';
import type { VolumeRecord } from '../volumes/records.js';
import {
  NOTHING,
  type NodeDependencies,
  type Occupant,
  occupantAt,
  stagedAt,
  viewVolume,
} from './node-volume.js';

/** NOT_FOUND if the volume is not staged or published at the path, which may be any string. */
export async function volumeStats(
  deps: NodeDependencies,
  volume: VolumeRecord,
  volumePath: string,
): Promise<ResponseMessage> {
  const isPlain = volumePath.startsWith('/') && !volumePath.split('/').includes('..');
  const path = isPlain ? await kernelPath(volumePath) : null;
  const view = await viewVolume(deps, volume);
  const found = path === null ? NOTHING : await usedAt(view, path);
  if (path !== null && found.kind === 'mount') {
    const usage = await fileSystemUsage(path);
    // After an unmount in between, these would be the figures of the directory below.
    if ((await topMount(path))?.mountId === found.entry.mountId) return { usage };
  } else if (found.kind === 'block') {
    const total = await deviceSizeBytes(found.entry.mountPoint);
    return { usage: [{ total: total.toString(), unit: 'BYTES' }] };
  }
  throw CsiError.notFound(
    `volume ${volume.volumeId} is neither staged nor published at ${volumePath}`,
  );
}

async function usedAt(view: Parameters<typeof occupantAt>[0], path: string): Promise<Occupant> {
  const occupant = await occupantAt(view, path);
  return occupant.kind === 'nothing' ? stagedAt(view, path) : occupant;
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
