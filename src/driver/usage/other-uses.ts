/**
 * Finds uses of a volume beside its stagings, in every mount namespace that can be seen from here.
 *
 * An unmount of a staging also unmounts its copies in other namespaces, which propagation made of it (mount_namespaces(7)). Any
 * other mount that shows the volume is somebody's own use. Knows no records.
 */
import { join, relative } from 'node:path';
import { volumeIdIn } from '../../base/csi/handles.js';
import { printable } from '../../base/errors.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import { mountsOfNamespaces } from '../host/device-holders.js';
import { usesOf, type VolumeView } from './volume-view.js';

/** How Kubernetes names both a volume and its PersistentVolume, whose name is in the kubelet's paths. */
const CLAIM = /\bpvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/;

/**
 * A path where the volume is mounted or its device node is bound, and which is neither one of the given places nor a copy of a
 * given place; null if there is none.
 *
 * @param places as mountinfo writes them
 */
export async function otherUse(view: VolumeView, places: readonly string[]): Promise<string | null> {
  const usesIn = (mounts: readonly MountEntry[]): MountEntry[] => {
    const { mounts: mounted, nodes } = usesOf({ ...view, mounts });
    return [...mounted, ...nodes.filter(({ mountPoint }) => !namesOther(view, mountPoint))];
  };
  const staged = usesIn(view.mounts).filter(({ mountPoint }) => places.includes(mountPoint));
  const spots = staged.flatMap((entry) => spotsOf(entry, view.mounts, ['peerGroup']));
  // Mount ids are unique across all mount namespaces.
  const ids = staged.map(({ mountId }) => mountId);
  for (const { suffix, mounts } of await mountsOfNamespaces()) {
    const isCopy = (entry: MountEntry): boolean =>
      spotsOf(entry, mounts, ['peerGroup', 'masterGroup']).some((spot) => spots.includes(spot));
    const other = usesIn(mounts).find((entry) => !ids.includes(entry.mountId) && !isCopy(entry));
    if (other !== undefined) return `${printable(other.mountPoint, other.mountPoint.length)}${suffix}`;
  }
  return null;
}

/**
 * Whether the path of a bound device node names another volume. A bound node does not hold its device, so it may be left from a
 * volume whose device had the number before.
 */
export function namesOther({ volume }: VolumeView, mountPoint: string): boolean {
  const { volumeId, name } = volume;
  if (mountPoint.includes(volumeId)) return false;
  if (volumeIdIn(mountPoint) !== null) return true;
  return CLAIM.test(name) && CLAIM.test(mountPoint) && !mountPoint.includes(name);
}

/** The spots that an unmount reaches: the same place of the parent's file system in the parent's peers and their slaves. */
function spotsOf(
  { parentId, mountPoint }: MountEntry,
  mounts: readonly MountEntry[],
  groups: readonly ('peerGroup' | 'masterGroup')[],
): string[] {
  const parent = mounts.find(({ mountId }) => mountId === parentId);
  if (parent === undefined) return [];
  const place = join(parent.root, relative(parent.mountPoint, mountPoint));
  return groups.flatMap((group) => (parent[group] === null ? [] : `${parent[group]} ${place}`));
}
