/** Mounts as statmount(2) shows them, in the form of the lines of mountinfo. Knows no paths. */
import type { MountEntry } from '../../base/system/mountinfo.js';
import type { MountRecord } from './mount-addon.js';

const READ_ONLY = 1;
/** MOUNT_ATTR_* in the order of mountinfo. */
const MOUNT_OPTIONS: readonly (readonly [flag: number, name: string])[] = [
  [0x2, 'nosuid'],
  [0x4, 'nodev'],
  [0x8, 'noexec'],
  [0x10, 'noatime'],
  [0x80, 'nodiratime'],
];
const STRICTATIME = 0x20;
const NOATIME = 0x10;
const NOSYMFOLLOW = 0x20_0000;
/** MS_* in the order of mountinfo. */
const SUPER_OPTIONS: readonly (readonly [flag: number, name: string])[] = [
  [16, 'sync'],
  [128, 'dirsync'],
  [1 << 25, 'lazytime'],
];

/** `device` is st_dev, even for btrfs. The options of the file system lack those of a security module. */
export function mountEntryOf(record: MountRecord): MountEntry {
  const { mountId, parentId, major, minor, root, mountPoint, attributes, fsType, source, superFlags } = record;
  const named = (flags: number, names: typeof MOUNT_OPTIONS): string[] =>
    names.filter(([flag]) => (flags & flag) !== 0).map(([, name]) => name);
  const readOnly = (attributes & READ_ONLY) !== 0;
  const superReadOnly = (superFlags & READ_ONLY) !== 0;
  const isRelatime = (attributes & (NOATIME | STRICTATIME)) === 0;
  const noSymfollow = (attributes & NOSYMFOLLOW) !== 0;
  return {
    mountId,
    parentId,
    major,
    minor,
    device: { major, minor },
    root,
    mountPoint,
    options: [
      readOnly ? 'ro' : 'rw',
      ...named(attributes, MOUNT_OPTIONS),
      ...(isRelatime ? ['relatime'] : []),
      ...(noSymfollow ? ['nosymfollow'] : []),
    ],
    peerGroup: record.peerGroup || null,
    masterGroup: record.masterGroup || null,
    fsType,
    source,
    superOptions: [
      superReadOnly ? 'ro' : 'rw',
      ...named(superFlags, SUPER_OPTIONS),
      ...(record.superOptions === '' ? [] : record.superOptions.split(',')),
    ],
    readOnly,
    superReadOnly,
  };
}
