/**
 * A temporary place for one test, and the sweeping of everything under it: mounts, loop devices and
 * what device-mapper has put on them, files. What a test made is found through the kernel, not through what the test remembers, so it
 * goes away also after a failure or a kill -9 of the plugin.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { packagePath } from '../../src/base/package-root.js';
import { loadAddon } from '../../src/driver/native/addon.js';
import { backingOf, detachLoop, fileBelow, sparseFile } from './loops.js';

/** Why root-only tests cannot run here; undefined if they can. For node:test's `skip`. */
export const skipUnlessRoot: string | false =
  process.getuid?.() === 0 ? false : 'needs root for loop devices and mounts';

/** How long devices may stay in use by others after a test. */
const RELEASE_TIMEOUT_MS = 300_000;

/** Of workspaces that are not disposed of. */
const kept = new Set<string>();

/** What is left when the process ends, as by a signal or a failure of the clean-up before: with its processes. */
function removeKept(): void {
  for (const directory of kept) removeLeftBehind(directory);
}

/** From outside, as the suite does it. */
export function removeLeftBehind(directory: string): void {
  spawnSync(process.execPath, [packagePath('scripts/left-behind.mjs'), directory]);
}

/** A signal that nobody listens to would end the process without the event. */
function removeWhenEnded(): void {
  process.once('exit', removeKept);
  for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => process.exit(1));
  }
}

export class Workspace {
  readonly directory: string;

  constructor(label: string) {
    if (!process.listeners('exit').includes(removeKept)) removeWhenEnded();
    this.directory = realpathSync(mkdtempSync(join(tmpdir(), `blockdelta-${label}-`)));
    kept.add(this.directory);
  }

  path(...names: string[]): string {
    return join(this.directory, ...names);
  }

  /**
   * Unmounts, detaches and removes everything below the directory. Waits for devices that others hold, such
   * as a copy of this mount namespace. Throws if something stays.
   */
  dispose(): void {
    const deadline = Date.now() + RELEASE_TIMEOUT_MS;
    for (let round = 0; Date.now() < deadline; round += 1) {
      const mounts = mountsBelow(this.directory);
      const loops = loopsBelow(this.directory);
      if (mounts.length === 0 && loops.length === 0) break;
      let unmounted = 0;
      for (const mountPoint of mounts.reverse()) {
        // Harmless if it is not frozen; a frozen file system cannot be unmounted. To open what is no
        // directory, a pipe or a device, may take for ever.
        if (isDirectory(mountPoint)) {
          spawnSync('fsfreeze', ['-u', mountPoint], { stdio: 'ignore' });
        }
        if (spawnSync('umount', [mountPoint], { stdio: 'ignore' }).status === 0) unmounted += 1;
      }
      // A device that goes with its mount frees its number, which another test may have by now: only
      // what is still there after a round without unmounting is detached, such as a volume's device
      // that holds its pool's mount.
      for (const device of unmounted === 0 ? withThoseOn(loops) : []) {
        detachLoop(device, () => {
          if (!withThoseOn(loopsBelow(this.directory)).includes(device)) return false;
          removeDevicesOn(basename(device));
          return true;
        });
      }
      if (round > 2) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
    const left = [...mountsBelow(this.directory), ...loopsBelow(this.directory)];
    if (left.length > 0) throw new Error(`left behind: ${left.join(', ')}`);
    for (const device of withThoseOn(loopsOfFilesIn(this.directory))) {
      detachLoop(device, () => withThoseOn(loopsOfFilesIn(this.directory)).includes(device));
    }
    try {
      rmSync(this.directory, { recursive: true, force: true });
    } catch {
      // Snapshots in a pool directly on the host's file system are immutable.
      spawnSync('chattr', ['-R', '-i', this.directory], { stdio: 'ignore' });
      rmSync(this.directory, { recursive: true, force: true });
    }
    kept.delete(this.directory);
  }
}

/** False too for the root of a file system that has shut down, which fails with EIO. */
function isDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

/** Mount points below a directory, in the order they were mounted. */
export function mountsBelow(directory: string): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => (line.split(' ')[4] ?? '').replace(/\\040/g, ' '))
    .filter((mountPoint) => mountPoint === directory || mountPoint.startsWith(`${directory}/`));
}

/** Loop devices whose backing file is below a directory. */
export function loopsBelow(directory: string): string[] {
  return [...attachedLoops()].filter(([, file]) => file.startsWith(`${directory}/`)).map(([device]) => device);
}

/** The backing file of each loop device that has one. */
function attachedLoops(): Map<string, string> {
  const found = new Map<string, string>();
  for (const name of readdirSync('/sys/block').filter((each) => each.startsWith('loop'))) {
    const file = backingOf(name);
    if (file !== null) found.set(`/dev/${name}`, file);
  }
  return found;
}

/**
 * Loop devices on files of the directory, by identity: a plugin that was killed in a mount namespace of its own
 * leaves some whose path is that of the namespace. Nothing may be mounted below the directory.
 */
function loopsOfFilesIn(directory: string): string[] {
  const files = new Set(
    readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name), { bigint: true }).ino),
  );
  const { dev } = statSync(directory, { bigint: true });
  return [...attachedLoops().keys()].filter((device) => {
    const below = knownFileBelow(device);
    return below?.dev === dev && files.has(below.ino);
  });
}

/**
 * These devices below the ones that stand on them, by identity: on a file of the file system that a device has. They keep
 * that file system, and so the device, after all its mounts have gone. Files of btrfs have another number than its device.
 */
function withThoseOn(devices: readonly string[]): string[] {
  if (devices.length === 0) return [];
  const files = [...attachedLoops().keys()].map((device) => ({ device, below: knownFileBelow(device) }));
  const found = [...devices];
  // Grows meanwhile.
  for (const lower of found) {
    const { rdev } = statSync(lower, { bigint: true });
    const on = files.filter(({ below }) => below?.dev === rdev).map(({ device }) => device);
    found.push(...on.filter((device) => !found.includes(device)));
  }
  return found.reverse();
}

/** Null also for a device that cannot tell, such as one on a file system that has shut down. */
function knownFileBelow(device: string): ReturnType<typeof fileBelow> {
  try {
    return fileBelow(device);
  } catch {
    return null;
  }
}

/** Device-mapper devices on that one, the uppermost first; those in use stay. */
function removeDevicesOn(kernelName: string): void {
  let holders: string[] = [];
  try {
    holders = readdirSync(`/sys/block/${kernelName}/holders`);
  } catch {
    // Gone with one that was removed before.
  }
  for (const holder of holders) {
    removeDevicesOn(holder);
    try {
      const name = readFileSync(`/sys/block/${holder}/dm/name`, 'utf8').trim();
      loadAddon().dmResume({ name });
      loadAddon().dmRemove({ name, deferred: false });
    } catch {
      // Gone, or none of device-mapper's.
    }
  }
}

export type PoolKind = 'xfs' | 'xfs-1k' | 'btrfs' | 'btrfs-zstd' | 'btrfs-nodatacow' | 'btrfs-no-holes-off' | 'ext4';

const MKFS: Readonly<Record<PoolKind, [string, ...string[]]>> = {
  xfs: ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1'],
  'xfs-1k': ['mkfs.xfs', '-q', '-f', '-m', 'reflink=1', '-b', 'size=1024'],
  btrfs: ['mkfs.btrfs', '-q', '-f'],
  'btrfs-zstd': ['mkfs.btrfs', '-q', '-f'],
  'btrfs-nodatacow': ['mkfs.btrfs', '-q', '-f'],
  'btrfs-no-holes-off': ['mkfs.btrfs', '-q', '-f', '-O', '^no-holes'],
  ext4: ['mkfs.ext4', '-q', '-F'],
};

const MOUNT_OPTIONS: Readonly<Partial<Record<PoolKind, string>>> = {
  'btrfs-zstd': 'compress-force=zstd',
  'btrfs-nodatacow': 'nodatacow',
};

/** A file system of that kind, in an image on a loop device, mounted in the workspace. Returns the mount point. */
export function makePoolFileSystem(workspace: Workspace, kind: PoolKind, sizeMiB = 2048, name: string = kind): string {
  const image = sparseFile(workspace.path(`${name}.img`), sizeMiB * 2 ** 20);
  const mountPoint = workspace.path(`${name}.pool`);
  const [mkfs, ...options] = MKFS[kind];
  execFileSync(mkfs, [...options, image], { stdio: ['ignore', 'ignore', 'pipe'] });
  execFileSync('mkdir', ['-p', mountPoint]);
  const extra = MOUNT_OPTIONS[kind];
  const mountOptions = extra === undefined ? 'loop' : `loop,${extra}`;
  execFileSync('mount', ['-o', mountOptions, image, mountPoint]);
  ensureWritable(mountPoint);
  return mountPoint;
}

/**
 * The kernel keeps BLKROSET with the number of a loop device that went by itself, at its last close, and mount(8) mounts what has
 * that number next for reading.
 */
function ensureWritable(mountPoint: string): void {
  const shown = execFileSync('findmnt', ['--noheadings', '--output', 'SOURCE,OPTIONS', mountPoint], {
    encoding: 'utf8',
  });
  const [device = '', options = ''] = shown.trim().split(/ +/);
  if (!options.startsWith('ro,')) return;
  execFileSync('blockdev', ['--setrw', device]);
  execFileSync('mount', ['-o', 'remount,rw', mountPoint]);
}
