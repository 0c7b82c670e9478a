/**
 * The mounts of this mount namespace according to the kernel, parsed from /proc/self/mountinfo.
 *
 * See proc_pid_mountinfo(5). The output of the mount program is never read, because it is made for people and mixes in what
 * user space remembers. Knows nothing of volumes.
 */
import { readFile, stat } from 'node:fs/promises';

export interface MountEntry {
  mountId: number;
  parentId: number;
  /** st_dev of the file system. */
  major: number;
  minor: number;
  /** The file system's block device; the same as st_dev, except for btrfs. */
  device: { major: number; minor: number };
  /** The part of the file system that is mounted; `/loop3` for a bound device node of devtmpfs. */
  root: string;
  mountPoint: string;
  /** The options of this mount: ro, noatime, nosuid, ... */
  options: readonly string[];
  /** The peer group that sees what is mounted here, unique over all mount namespaces; null if private or only a slave. */
  peerGroup: number | null;
  /** The peer group whose mounts and unmounts arrive here, in one direction; null if this mount is no slave. */
  masterGroup: number | null;
  fsType: string;
  source: string;
  /** The options of the file system, which are the same for all its mounts. */
  superOptions: readonly string[];
  /** Whether this mount refuses writes, whatever the file system does. */
  readOnly: boolean;
  superReadOnly: boolean;
}

const MOUNTINFO = '/proc/self/mountinfo';
/** Fields before the optional ones. */
const FIXED_FIELDS = 6;

/**
 * The current mounts. The kernel returns the file in pages and skips no entry when a mount goes away
 * between two of them (Linux 5.8 and later), so one pass is enough. It costs time in proportion to the
 * mounts of the node: read it once, pass it on, and read it again only after a change.
 */
export async function readMountInfo(): Promise<MountEntry[]> {
  return withBlockDevices(parseMountInfo(await readFile(MOUNTINFO, 'utf8')));
}

/** The mounts in the mount namespace of another process. Rejects if the process has ended. */
export async function mountInfoOfProcess(pid: string): Promise<MountEntry[]> {
  return withBlockDevices(parseMountInfo(await readFile(`/proc/${pid}/mountinfo`, 'utf8')));
}

async function withBlockDevices(entries: MountEntry[]): Promise<MountEntry[]> {
  const numbers = new Map<string, number>();
  for (const source of btrfsSources(entries)) {
    const found = await stat(source).catch(() => null);
    if (found?.isBlockDevice() === true) numbers.set(source, found.rdev);
  }
  return withDevicesOf(entries, numbers);
}

/**
 * The sources that name the block devices of btrfs, whose st_dev is made up. For btrfs the kernel itself fills in the source. If
 * a source is not a block device here, the device stays unknown.
 */
export function btrfsSources(entries: readonly MountEntry[]): Set<string> {
  return new Set(entries.filter(isBtrfs).map(({ source }) => source));
}

/** @param numbers st_rdev by source */
export function withDevicesOf(entries: MountEntry[], numbers: ReadonlyMap<string, number>): MountEntry[] {
  if (numbers.size === 0) return entries;
  return entries.map((entry) => {
    const rdev = isBtrfs(entry) ? numbers.get(entry.source) : undefined;
    if (rdev === undefined) return entry;
    return { ...entry, device: { major: majorOf(rdev), minor: minorOf(rdev) } };
  });
}

const isBtrfs = ({ fsType }: Pick<MountEntry, 'fsType'>): boolean => fsType === 'btrfs';

/** What decides whether an entry is wanted. */
export type MountLine = Pick<MountEntry, 'major' | 'minor' | 'root' | 'mountPoint' | 'fsType'>;

/**
 * Parses the text alone, so `device` equals st_dev, even for btrfs. Throws on a line that does not have the documented form,
 * because overlooking a mount would be worse.
 */
export function parseMountInfo(text: string, isWanted: (line: MountLine) => boolean = () => true): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split('\n')) {
    const entry = line === '' ? null : parseLine(line, isWanted);
    if (entry !== null) entries.push(entry);
  }
  return entries;
}

function parseLine(line: string, isWanted: (line: MountLine) => boolean): MountEntry | null {
  const fields = line.split(' ');
  const separator = fields.indexOf('-', FIXED_FIELDS);
  const [id, parent, number, root, mountPoint, options] = fields;
  const [fsType, source, superOptions] = fields.slice(separator + 1);
  const numbers = /^(\d+):(\d+)$/.exec(number ?? '');
  if (separator < 0 || superOptions === undefined || numbers === null || options === undefined) {
    throw new Error(`${MOUNTINFO} has a line of unknown form: ${line}`);
  }
  const [major, minor] = [Number(numbers[1]), Number(numbers[2])];
  // Each field by name: this runs for every mount of the node, and copying an object takes longer than the rest of it.
  const seen = {
    major,
    minor,
    root: decodeOctal(root ?? ''),
    mountPoint: decodeOctal(mountPoint ?? ''),
    fsType: decodeOctal(fsType ?? ''),
  };
  if (!isWanted(seen)) return null;
  const optional = fields.slice(FIXED_FIELDS, separator);
  const mountOptions = options.split(',');
  const fileSystemOptions = superOptions.split(',');
  return {
    mountId: Number(id),
    parentId: Number(parent),
    ...seen,
    device: { major, minor },
    options: mountOptions,
    peerGroup: groupIn(optional, 'shared:'),
    masterGroup: groupIn(optional, 'master:'),
    source: decodeOctal(source ?? ''),
    superOptions: fileSystemOptions,
    readOnly: mountOptions.includes('ro'),
    superReadOnly: fileSystemOptions.includes('ro'),
  };
}

/** The optional field `shared:N` names the peer group, and `master:N` names the peer group of the master. */
function groupIn(optional: readonly string[], prefix: string): number | null {
  const field = optional.find((each) => each.startsWith(prefix));
  return field === undefined ? null : Number(field.slice(prefix.length));
}

/** Space, tab, newline, backslash and `#` come as octal escapes. */
function decodeOctal(text: string): string {
  // Few names have any, and a node may have thousands of mounts.
  if (!text.includes('\\')) return text;
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
}

/**
 * The layers of mounts on one path, bottom first; the last layer is visible there. Does not include a mount that a mount of a
 * parent directory hides. A directory that is bound to itself and shared, as /var/lib/kubelet often is, has such a hidden
 * copy of every mount below it, with the same path.
 */
export function mountsAt(mounts: readonly MountEntry[], path: string): MountEntry[] {
  const here = mounts.filter((entry) => entry.mountPoint === path);
  const byId = new Map(here.map((entry) => [entry.mountId, entry]));
  const layers: MountEntry[] = [];
  let layer = here.length === 0 ? null : mountContaining(mounts, path);
  while (layer?.mountPoint === path) {
    layers.unshift(layer);
    // The parent of a layer is the layer below it. The parent of the root mount may be the root mount itself.
    layer = layer.parentId === layer.mountId ? null : (byId.get(layer.parentId) ?? null);
  }
  return layers;
}

/** The mount that is visible at a path without symbolic links: the top layer at the path, or at one of its parents. */
export function mountContaining(mounts: readonly MountEntry[], path: string): MountEntry | null {
  const isOnTheWay = ({ mountPoint }: MountEntry): boolean =>
    mountPoint === '/' || path === mountPoint || path.startsWith(`${mountPoint}/`);
  const onTheWay = mounts.filter(isOnTheWay).sort((a, b) => a.mountPoint.length - b.mountPoint.length);
  const ids = new Set(onTheWay.map(({ mountId }) => mountId));
  // A path begins at the root of this process, below any mount over this root.
  const isChildOf = (parent: MountEntry) => (entry: MountEntry) =>
    entry.parentId === parent.mountId && entry.mountPoint !== '/';
  let found = onTheWay.find(({ mountId, parentId }) => parentId === mountId || !ids.has(parentId));
  // Of several children, the child further up hides the others, because a walk along the path meets it first.
  for (let next = found; next !== undefined; next = onTheWay.find(isChildOf(next))) found = next;
  return found ?? null;
}

/** The mounts of the file system on a block device, given its st_rdev. Bound device nodes are not included. */
export function mountsOfDevice(mounts: readonly MountEntry[], rdev: number): MountEntry[] {
  return mounts.filter((entry) => isOfDevice(entry, rdev));
}

export function isOfDevice({ device }: MountEntry, rdev: number): boolean {
  return device.major === majorOf(rdev) && device.minor === minorOf(rdev);
}

/** The mounts of the file system with this st_dev, such as the st_dev of a device node's directory. */
export function mountsOfFileSystem(mounts: readonly MountEntry[], dev: number): MountEntry[] {
  return mounts.filter((entry) => entry.major === majorOf(dev) && entry.minor === minorOf(dev));
}

/** LOOP_MAJOR of linux/major.h. */
export const LOOP_MAJOR = 7;

/** 12 bits of major and 20 of minor number, as stat(2) folds them into 32. */
export const majorOf = (rdev: number): number => (rdev >>> 8) & 0xfff;
export const minorOf = (rdev: number): number => (rdev & 0xff) | ((rdev >>> 12) & 0xfff00);
export const rdevOf = (major: number, minor: number): number =>
  ((minor & 0xff) | (major << 8) | ((minor & 0xfff00) << 12)) >>> 0;
