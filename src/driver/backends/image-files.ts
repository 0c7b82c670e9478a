/** How much space image files may take on the host's file system. Knows nothing of their contents. */
import type { NativeRunner } from '../native/pool.js';

const MIB = 1n << 20n;
/** Space that stays free for the host: the catalogue, the images' own extents, and whatever else lives there. */
const HOST_RESERVE_PERCENT = 2n;
const HOST_RESERVE_MINIMUM = 256n * MIB;

/** Free space of the file system that holds `directory`, bytes. */
export async function hostFreeBytes(native: NativeRunner, directory: string): Promise<bigint> {
  return (await native.run('spaceOf', { path: directory })).freeBytes;
}

/** The part of that free space that images may take, whole MiB. Negative if less is free than the host's reserve. */
export async function imageSpace(native: NativeRunner, directory: string): Promise<bigint> {
  const free = await hostFreeBytes(native, directory);
  const share = (free * HOST_RESERVE_PERCENT) / 100n;
  const reserve = share > HOST_RESERVE_MINIMUM ? share : HOST_RESERVE_MINIMUM;
  return ((free - reserve) / MIB) * MIB;
}
