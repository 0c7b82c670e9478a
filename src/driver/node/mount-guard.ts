/**
 * Mounts a volume's file system if this host accepts what the superblock says.
 *
 * Anyone who can write to a volume can write its superblock, and root's tools and the kernel act on the superblock. So it is
 * read before a tool or the kernel gets the device, and again right before the mount, because a tool may have put a backup of
 * the superblock in its place. The options in force are checked after the mount. Makes no file system.
 */

import { uuidOf } from '../../base/csi/handles.js';
import { CsiError } from '../../base/errors.js';
import type { MountEntry } from '../../base/system/mountinfo.js';
import type { Attachment } from '../backends/backend.js';
import type { VolumeRecord } from '../catalogue/records.js';
import { isHeldExclusively } from '../host/device-holders.js';
import type { FileSystem } from '../host/file-systems.js';
import { thawLeftFrozen } from '../host/left-frozen.js';
import { otherBtrfsMounted, unaskedInForce } from '../host/mounted-file-system.js';
import { mount } from '../host/mounter.js';
import { btrfsIdentity, superblockObjection } from '../host/superblock.js';
import type { LookRequest } from '../native/look-calls.js';
import { usesOf, type VolumeView } from '../usage/volume-view.js';
import { mountPointsOf } from './growth.js';
import type { NodeDependencies } from './node-dependencies.js';

type Dependencies = Pick<NodeDependencies, 'native' | 'catalogue' | 'backendOf'>;

export interface FileSystemOnDevice {
  volume: VolumeRecord;
  attachment: Attachment;
  type: FileSystem;
}

export interface GuardedMount extends FileSystemOnDevice {
  directory: string;
  options: readonly string[];
  /** The current mounts. */
  before: readonly MountEntry[];
  /** Looks at the directory among others, and at the device. */
  look: LookRequest;
}

/** The fsids of the btrfs file systems that are about to be mounted. */
const arriving = new Set<string>();

/** FAILED_PRECONDITION if the host does not accept what the superblock says. The device must not be mounted. */
export async function assertAccepted(
  deps: Dependencies,
  { volume, attachment, type }: FileSystemOnDevice,
): Promise<void> {
  const { devicePath, sizeBytes } = attachment;
  // XFS reads its superblock from the device, but this process reads the superblock through the page cache.
  await deps.native.run('flush', { path: devicePath });
  const objection = await superblockObjection(deps.native, type, devicePath, sizeBytes);
  if (objection === null) return;
  throw CsiError.failedPrecondition(
    `the ${type} file system of volume ${volume.volumeId} is not mounted: it has ${objection.found}, which this ` +
      `host does not accept from a volume; ${objection.remedy}`,
  );
}

/** Mounts the file system. If it is mounted already, the kernel takes no options and nothing is checked. */
export async function mountGuarded(deps: Dependencies, guarded: GuardedMount): Promise<void> {
  const { attachment, type, directory, options, before, look } = guarded;
  const source = attachment.devicePath;
  const mountIt = (): Promise<readonly MountEntry[]> =>
    mount(deps.native, {
      source,
      rdev: attachment.rdev,
      target: directory,
      fsType: type,
      options,
      isResolved: true,
      before,
      look,
    });
  if (mountPointsOf(attachment, before) > 0) {
    await mountIt();
    return;
  }
  await assertAccepted(deps, guarded);
  const after = type === 'btrfs' ? await underOwnIdentity(deps, guarded, mountIt) : await mountIt();
  const unasked = await unaskedInForce(type, attachment.rdev, options, after);
  if (unasked === null) return;
  throw CsiError.failedPrecondition(
    `the ${type} file system of volume ${guarded.volume.volumeId} was mounted with ${unasked}, although nobody asked for it, ` +
      'and has been unmounted: another process writes to its device; end the process that has it open, then try again',
  );
}

/**
 * btrfs treats two devices with one fsid as one file system. Anyone who can write to a volume can give it any fsid: that of
 * another file system, or the fsid that another volume will need when it is staged.
 */
async function underOwnIdentity<T>(
  deps: Dependencies,
  { volume, attachment }: GuardedMount,
  mountIt: () => Promise<T>,
): Promise<T> {
  const { uuid } = await btrfsIdentity(deps.native, attachment.devicePath);
  if (arriving.has(uuid)) throw idOfOther(volume, uuid);
  arriving.add(uuid);
  try {
    const isMounted = (await otherBtrfsMounted(attachment.devicePath)).includes(uuid);
    if (isMounted || (await isIdOfOther(deps, volume, uuid))) throw idOfOther(volume, uuid);
    return await mountIt();
  } finally {
    arriving.delete(uuid);
  }
}

function idOfOther({ volumeId }: VolumeRecord, uuid: string): CsiError {
  return CsiError.failedPrecondition(
    `the btrfs file system of volume ${volumeId} is not mounted: its id ${uuid} is that of another one on this host; ` +
      'give it one of its own with btrfstune -m on the raw device, or restore a snapshot of it',
  );
}

/** Whether the fsid is the UUID in another volume's id: a copy of a volume gets the UUID in its own id as its fsid. */
async function isIdOfOther({ catalogue }: Dependencies, { volumeId }: VolumeRecord, uuid: string): Promise<boolean> {
  const own = uuidOf(volumeId);
  if (uuid === own) return false;
  const owner = await catalogue.volumeById(volumeId.slice(0, -own.length) + uuid);
  return owner !== null && owner.state !== 'deleted';
}

/**
 * Detaches a device that is attached although mountinfo shows no use of it. There are two causes. A process still had a raw
 * device open when the device was unpublished: the process could write to the device while its file system is mounted. Or a
 * file system that somebody froze has outlived its last mount: it is thawed, and the next mount sets it up anew. Throws if
 * something holds the device. A device that is mounted in another mount namespace stays attached: its file system was checked
 * when that mount was made, and a new mount shares it. Returns whether it detached the device.
 */
export async function releaseUnused(deps: Dependencies, view: VolumeView): Promise<boolean> {
  const { mounts, nodes } = usesOf(view);
  if (view.attachment === null || mounts.length > 0 || nodes.length > 0) return false;
  const { devicePath } = view.attachment;
  const isHeld = await isHeldExclusively(devicePath);
  if (isHeld && !(await thawLeftFrozen(deps.native, devicePath))) return false;
  const { volumeId, pool } = view.volume;
  await deps.backendOf(pool).attachments.detach(volumeId);
  return true;
}
