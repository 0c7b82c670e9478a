/**
 * Calls that ask the kernel several things in one task of a thread: where paths lead and what is mounted there, and the
 * attributes of a device. Each question by itself would wake a thread and the event loop, and a call of the Node service has
 * dozens. For the threads of a NativePool, as in file-calls.ts. Knows no volumes and no rules for paths.
 */
import fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { insteadOf } from '../../base/errors.js';
import {
  btrfsSources,
  LOOP_MAJOR,
  type MountEntry,
  type MountLine,
  majorOf,
  minorOf,
  mountContaining,
  mountsAt,
  parseMountInfo,
  withDevicesOf,
} from '../../base/system/mountinfo.js';
import type { MountRecord } from './mount-addon.js';
import { mountEntryOf } from './mount-records.js';

export interface LookRequest {
  /** Absolute paths. A path may not exist. */
  paths: readonly string[];
  /** For the question whether the first path may be used; null if that does not matter. */
  guarded: Guarded | null;
  /** A block device whose mounts matter wherever they are; null if there is none. ENOENT if the node does not exist. */
  devicePath: string | null;
}

export interface Guarded {
  /** Trees, about which it matters what is mounted on the way to them and in them. */
  trees: readonly string[];
  /** Places, about which it matters what is mounted on the way to them. */
  places: readonly string[];
}

export interface Look {
  /**
   * In the order of mountinfo, the mounts that are visible at the paths and on the way to them, and in paths that are no mount
   * points; those at and on the way to trees and places, and in trees; those of the device's file system; and those of its
   * node, or of all nodes in /dev without a device. Of other mounts, some may be there.
   */
  mounts: MountEntry[];
  /** Of each path. */
  paths: SeenPath[];
  /**
   * The trees without symbolic links, and likewise the places; what does not exist is as it was given. `label` is that of the
   * device (base/system/device-attributes.ts) whose file system holds the parent of the first path; null if it has none.
   */
  guarded: { trees: string[]; places: string[]; label: string | null } | null;
  /** st_rdev of the device's node, and st_dev of the file system that holds the node; null without a device. */
  node: { rdev: number; dev: number } | null;
}

export interface SeenPath {
  /** The path as mountinfo shows it: parents resolved, last component unchanged; null if the parent does not exist. */
  resolved: string | null;
  /** What is there; null if nothing is. */
  entry: SeenEntry | null;
}

export interface SeenEntry {
  /** Of what something is mounted on, nothing else is known. */
  kind: 'directory' | 'file' | 'link' | 'mount point' | 'other';
  /** An empty directory or an empty file. */
  isEmpty: boolean;
}

const MOUNTINFO = '/proc/self/mountinfo';
/** The errors that mean that a path does not exist. A path with too long a name cannot exist. */
const ABSENT = ['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'];
const NO_ATTRIBUTE = ['ENOENT', 'ENXIO', 'ENODEV'];

type MountsAround = (paths: string[], devices: number[]) => MountRecord[] | null;

/** @param mountsAround as of the addon */
export function lookCalls(mountsAround: MountsAround) {
  return {
    look: (request: LookRequest): Look => look(request, mountsAround),
    /** The trimmed text of each file in sysfs; null if the device has no such attribute. */
    attributes: ({ paths }: { paths: readonly string[] }) => ({ texts: paths.map(attribute) }),
    setAttribute: ({ path, text }: { path: string; text: string }) => fs.writeFileSync(path, text, { flag: 'r+' }),
  };
}

function look(request: LookRequest, mountsAround: MountsAround): Look {
  const { devicePath, guarded } = request;
  const device = devicePath === null ? null : fs.statSync(devicePath);
  const node = device === null ? null : { rdev: device.rdev, dev: device.dev };
  const nodesOn = node?.dev ?? statOf('/dev')?.dev;
  const resolved = request.paths.map(resolvedParent);
  const there = resolved.filter((path) => path !== null);
  const trees = guarded?.trees.map(resolvedOrGiven) ?? [];
  const places = guarded?.places.map(resolvedOrGiven) ?? [];
  const seen = [...request.paths, ...there, ...(guarded?.trees ?? []), ...trees];
  const isNear = nearness(seen, [...(guarded?.places ?? []), ...places]);
  const isNode = nodeTest(devicePath, nodesOn);
  const devices = [node?.rdev, nodesOn].filter((number) => number !== undefined);
  const isWanted = (line: MountLine): boolean => isNear(line) || isNode(line);
  const entriesIn = (mounts: readonly MountEntry[]): SeenPath[] =>
    resolved.map((path) => ({ resolved: path, entry: path === null ? null : entryAt(mounts, path) }));
  // What is mounted in a tree, or in a directory that is not empty, is known to nothing but mountinfo.
  const asked = resolved.map((path, index) => path ?? request.paths[index] ?? '/');
  const near = guarded === null && asked.length > 0 ? mountsAround(asked, devices) : null;
  let mounts = mountsOf(near?.map(mountEntryOf) ?? null, isWanted, node?.rdev);
  let paths = entriesIn(mounts);
  if (near !== null && paths.some(({ entry }) => entry?.kind === 'directory' && !entry.isEmpty)) {
    mounts = mountsOf(null, isWanted, node?.rdev);
    paths = entriesIn(mounts);
  }
  const [first = null] = resolved;
  const label = first === null || guarded === null ? null : labelAround(mounts, dirname(first));
  return { mounts, paths, guarded: guarded && { trees, places, label }, node };
}

function resolvedParent(path: string): string | null {
  try {
    return join(fs.realpathSync.native(dirname(path)), basename(path));
  } catch (thrown) {
    return insteadOf(ABSENT, null)(thrown);
  }
}

function resolvedOrGiven(path: string): string {
  try {
    return fs.realpathSync.native(path);
  } catch {
    return path;
  }
}

/** Whether a mount is at, on the way to or below what is seen, or at or on the way to a place. */
function nearness(seen: readonly string[], places: readonly string[]): (line: MountLine) => boolean {
  const onTheWay = new Set([...seen, ...places].flatMap(withParents));
  const below = seen.map((path) => (path === '/' ? path : `${path}/`));
  return ({ mountPoint }) => onTheWay.has(mountPoint) || below.some((path) => mountPoint.startsWith(path));
}

/**
 * Whether a mount is a bound device node: that of the device, or any without one.
 *
 * @param dev st_dev of the file system that holds the nodes; undefined if there is none
 */
function nodeTest(devicePath: string | null, dev: number | undefined): (line: MountLine) => boolean {
  if (dev === undefined) return () => false;
  const [ofMajor, ofMinor, name] = [majorOf(dev), minorOf(dev), devicePath === null ? null : basename(devicePath)];
  return ({ major, minor, root }) =>
    major === ofMajor && minor === ofMinor && (name === null || basename(root) === name);
}

/**
 * @param near contains all mounts that are wanted; null if that is not known
 * @param rdev of the device whose mounts are wanted too
 */
function mountsOf(
  near: MountEntry[] | null,
  isWanted: (line: MountLine) => boolean,
  rdev: number | undefined,
): MountEntry[] {
  const isOfRdev = ({ major, minor }: { major: number; minor: number }): boolean =>
    rdev !== undefined && major === majorOf(rdev) && minor === minorOf(rdev);
  // The number in the line of a btrfs is made up.
  const isPossible = (line: MountLine): boolean => line.fsType === 'btrfs' || isOfRdev(line) || isWanted(line);
  const found = near ?? parseMountInfo(fs.readFileSync(MOUNTINFO, 'utf8'), isPossible);
  const numbers = new Map<string, number>();
  for (const source of btrfsSources(found)) {
    const device = statOf(source);
    if (device?.isBlockDevice() === true) numbers.set(source, device.rdev);
  }
  return withDevicesOf(found, numbers).filter((entry) => isOfRdev(entry.device) || isWanted(entry));
}

function statOf(path: string): fs.Stats | null {
  try {
    return fs.statSync(path);
  } catch {
    return null;
  }
}

/** The path and the directories that contain it. */
function withParents(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [path, ...withParents(parent)];
}

/** Does not look at what is mounted at the path: a file system that does not answer must not stop the look. */
function entryAt(mounts: readonly MountEntry[], path: string): SeenEntry | null {
  if (mountsAt(mounts, path).length > 0) return { kind: 'mount point', isEmpty: false };
  let found: fs.Stats;
  try {
    found = fs.lstatSync(path);
  } catch (thrown) {
    return insteadOf(ABSENT, null)(thrown);
  }
  if (found.isDirectory()) return { kind: 'directory', isEmpty: fs.readdirSync(path).length === 0 };
  if (found.isFile()) return { kind: 'file', isEmpty: found.size === 0 };
  return { kind: found.isSymbolicLink() ? 'link' : 'other', isEmpty: false };
}

function labelAround(mounts: readonly MountEntry[], directory: string): string | null {
  const device = mountContaining(mounts, directory)?.device;
  // A made-up number, as of tmpfs and overlayfs, is that of no device.
  if (device === undefined || device.major === 0) return null;
  const name = device.major === LOOP_MAJOR ? 'loop/backing_file' : 'dm/name';
  return attribute(`/sys/dev/block/${device.major}:${device.minor}/${name}`);
}

function attribute(path: string): string | null {
  try {
    return fs.readFileSync(path, 'utf8').trim();
  } catch (thrown) {
    return insteadOf(NO_ATTRIBUTE, null)(thrown);
  }
}
