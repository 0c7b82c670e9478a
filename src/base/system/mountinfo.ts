/**
 * What the kernel says is mounted in this mount namespace: /proc/self/mountinfo, parsed.
 *
 * See proc_pid_mountinfo(5). The output of the mount program is never read: it is made for people,
 * and mixes in what user space remembers. Knows nothing of volumes.
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
  /** Of this mount: ro, noatime, nosuid, ... */
  options: readonly string[];
  /** The peer group that sees what is mounted here, unique over all mount namespaces; null: private or a slave. */
  peerGroup: number | null;
  /** The peer group whose mounts and unmounts arrive here, in one direction; null: it is no slave. */
  masterGroup: number | null;
  fsType: string;
  source: string;
  /** Of the file system, the same for all its mounts. */
  superOptions: readonly string[];
  /** This mount refuses writing, whatever the file system does. */
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

/** The same in the mount namespace of another process. Rejects if the process has ended. */
export async function mountInfoOfProcess(pid: string): Promise<MountEntry[]> {
  return withBlockDevices(parseMountInfo(await readFile(`/proc/${pid}/mountinfo`, 'utf8')));
}

/**
 * btrfs has a made-up st_dev; its block device is known by the source, which for btrfs the kernel
 * itself fills in. If the source is not a block device here, the device is
 * unknown.
 */
async function withBlockDevices(entries: MountEntry[]): Promise<MountEntry[]> {
  const sources = new Set(entries.filter(isBtrfs).map(({ source }) => source));
  if (sources.size === 0) return entries;
  const numbers = new Map<string, number>();
  for (const source of sources) {
    const found = await stat(source).catch(() => null);
    if (found?.isBlockDevice() === true) numbers.set(source, found.rdev);
  }
  return entries.map((entry) => {
    const rdev = isBtrfs(entry) ? numbers.get(entry.source) : undefined;
    if (rdev === undefined) return entry;
    return { ...entry, device: { major: majorOf(rdev), minor: minorOf(rdev) } };
  });
}

const isBtrfs = (entry: MountEntry): boolean => entry.fsType === 'btrfs';

/**
 * `device` is as good as st_dev here. Throws on a line that is not of the documented form: a mount
 * overlooked would be worse.
 */
export function parseMountInfo(text: string): MountEntry[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map(parseLine);
}

function parseLine(line: string): MountEntry {
  const fields = line.split(' ');
  const separator = fields.indexOf('-', FIXED_FIELDS);
  const [id, parent, number, root, mountPoint, options] = fields;
  const [fsType, source, superOptions] = fields.slice(separator + 1);
  const numbers = /^(\d+):(\d+)$/.exec(number ?? '');
  if (separator < 0 || superOptions === undefined || numbers === null || options === undefined) {
    throw new Error(`${MOUNTINFO} has a line of unknown form: ${line}`);
  }
  const device = { major: Number(numbers[1]), minor: Number(numbers[2]) };
  const optional = fields.slice(FIXED_FIELDS, separator);
  const mountOptions = options.split(',');
  const fileSystemOptions = superOptions.split(',');
  return {
    mountId: Number(id),
    parentId: Number(parent),
    ...device,
    device,
    root: decodeOctal(root ?? ''),
    mountPoint: decodeOctal(mountPoint ?? ''),
    options: mountOptions,
    peerGroup: groupIn(optional, 'shared:'),
    masterGroup: groupIn(optional, 'master:'),
    fsType: decodeOctal(fsType ?? ''),
    source: decodeOctal(source ?? ''),
    superOptions: fileSystemOptions,
    readOnly: mountOptions.includes('ro'),
    superReadOnly: fileSystemOptions.includes('ro'),
  };
}

/** Of the optional fields, `shared:N` names the peer group and `master:N` that of the master. */
function groupIn(optional: readonly string[], prefix: string): number | null {
  const field = optional.find((each) => each.startsWith(prefix));
  return field === undefined ? null : Number(field.slice(prefix.length));
}

/** Space, tab, newline, backslash and `#` come as octal escapes. */
function decodeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}

/**
 * The layers of mounts piled up on one path, bottom first: the last one is visible there. Does not include
 * a mount that a mount of a parent directory hides: a directory bound to itself and shared, as
 * /var/lib/kubelet often is, has such a copy of every mount below it, with the same path.
 */
export function mountsAt(mounts: readonly MountEntry[], path: string): MountEntry[] {
  const here = mounts.filter((entry) => entry.mountPoint === path);
  const byId = new Map(here.map((entry) => [entry.mountId, entry]));
  const layers: MountEntry[] = [];
  let layer = here.length === 0 ? null : mountContaining(mounts, path);
  while (layer?.mountPoint === path) {
    layers.unshift(layer);
    // A layer's parent is the layer below it; the root's may be the root itself.
    layer = layer.parentId === layer.mountId ? null : (byId.get(layer.parentId) ?? null);
  }
  return layers;
}

/** The mount that shows what is at a path without symbolic links: its top layer there, or that of a parent. */
export function mountContaining(mounts: readonly MountEntry[], path: string): MountEntry | null {
  const isOnTheWay = ({ mountPoint }: MountEntry): boolean =>
    mountPoint === '/' || path === mountPoint || path.startsWith(`${mountPoint}/`);
  const onTheWay = mounts
    .filter(isOnTheWay)
    .sort((a, b) => a.mountPoint.length - b.mountPoint.length);
  const ids = new Set(onTheWay.map(({ mountId }) => mountId));
  // A path begins at the root of this process, below whatever is mounted over that.
  const isChildOf = (parent: MountEntry) => (entry: MountEntry) =>
    entry.parentId === parent.mountId && entry.mountPoint !== '/';
  let found = onTheWay.find(({ mountId, parentId }) => parentId === mountId || !ids.has(parentId));
  // Of several children the one further up hides the others, as the walk along the path meets it first.
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

/** The mounts of the file system with this st_dev, such as that of a device node's directory. */
export function mountsOfFileSystem(mounts: readonly MountEntry[], dev: number): MountEntry[] {
  return mounts.filter((entry) => entry.major === majorOf(dev) && entry.minor === minorOf(dev));
}

/** 12 bits of major and 20 of minor number, as stat(2) folds them into 32. */
export const majorOf = (rdev: number): number => (rdev >>> 8) & 0xfff;
export const minorOf = (rdev: number): number => (rdev & 0xff) | ((rdev >>> 12) & 0xfff00);
