/**
 * What the host's file system can give to images of ours, of which it should keep some for itself.
 */
import { statfs } from 'node:fs/promises';

const MIB = 1n << 20n;
/** Left to the host: for the catalogue, for the images' own metadata, for whoever else lives there. */
const HOST_RESERVE_PERCENT = 2n;
const HOST_RESERVE_MINIMUM = 256n * MIB;

/** What is free, bytes. */
export async function hostFreeBytes(directory: string): Promise<bigint> {
  const host = await statfs(directory, { bigint: true });
  return host.bavail * host.bsize;
}

/** Of that, what images may take; whole MiB, negative where less is free than the host should keep. */
export async function imageSpace(directory: string): Promise<bigint> {
  const free = await hostFreeBytes(directory);
  const share = (free * HOST_RESERVE_PERCENT) / 100n;
  const reserve = share > HOST_RESERVE_MINIMUM ? share : HOST_RESERVE_MINIMUM;
  return ((free - reserve) / MIB) * MIB;
}
