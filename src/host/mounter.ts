/**
 * Mounting and unmounting on this node, idempotent by what mountinfo says.
 *
 * Paths are as the kernel sees them: absolute, without a symbolic link in the last component (see
 * target.ts). Nothing is ever unmounted lazily: a busy mount is an error that names it. Options may
 * be sensitive and appear in no error. Knows nothing of volumes.
 */
import { realpath, stat } from 'node:fs/promises';
import { CsiError } from '../base/errors.js';
import { ExecError, run } from './exec.js';
import {
  isOfDevice,
  type MountEntry,
  mountsAt,
  mountsOfDevice,
  readMountInfo,
} from './mountinfo.js';
import { kernelPath } from './target.js';

/** A journal of a large file system takes minutes to replay, a dirty cache minutes to write back. */
const MOUNT_TIMEOUT_MS = 600_000;
const PLAIN = ['--no-mtab', '--internal-only', '--no-canonicalize'] as const;

export interface MountRequest {
  /** A block device. */
  source: string;
  target: string;
  fsType: string;
  options: readonly string[];
  /** The target has no symbolic link in it: one that has come in the way since is refused, not followed. */
  isResolved?: boolean;
  /** The current mounts, if the caller has just read them. */
  before?: readonly MountEntry[];
}

/** Mounts the file system of a block device. There already, as the top layer: done. Returns the mounts after it. */
export async function mount(request: MountRequest): Promise<readonly MountEntry[]> {
  const { source, target, fsType, options } = request;
  const { rdev } = await stat(source);
  const path = await kernelPath(target);
  const isDone = (mounts: readonly MountEntry[]): boolean => {
    const top = path === null ? undefined : mountsAt(mounts, path).at(-1);
    return top !== undefined && isOfDevice(top, rdev) && top.fsType === fsType;
  };
  const before = request.before ?? (await readMountInfo());
  if (isDone(before)) return before;
  const list = options.length === 0 ? [] : ['-o', options.join(',')];
  const mountIt = (): Promise<void> =>
    attempt(`${source} (${fsType}) cannot be mounted on ${target}`, options, [
      ...PLAIN,
      ...['-t', fsType, ...list, '--', source, target],
    ]);
  if (request.isResolved === true) await assertResolved(target);
  await mountIt();
  const after = await readMountInfo();
  if (request.isResolved === true) await assertMountedOn(target, rdev, before, after);
  if (isDone(after)) return after;
  throw CsiError.internal(`mounting ${source} on ${target} had no effect that mountinfo shows`);
}

async function assertResolved(target: string): Promise<void> {
  const found = await realpath(target);
  if (found !== target) throw targetMoved(target, found);
}

/**
 * mount(8) follows symbolic links. If one was put in the path after it was resolved, the new mount is
 * elsewhere: it is unmounted again.
 */
async function assertMountedOn(
  target: string,
  rdev: number,
  before: readonly MountEntry[],
  after: readonly MountEntry[],
): Promise<void> {
  const earlier = new Set(mountsOfDevice(before, rdev).map(({ mountId }) => mountId));
  const made = mountsOfDevice(after, rdev).filter(({ mountId }) => !earlier.has(mountId));
  // A target in a shared mount has its mount copied to every peer of that.
  const [elsewhere] = made.some(({ mountPoint }) => mountPoint === target) ? [] : made;
  if (elsewhere === undefined) return;
  await tryUnmount(elsewhere.mountPoint);
  throw targetMoved(target, elsewhere.mountPoint);
}

const targetMoved = (target: string, found: string): CsiError =>
  CsiError.failedPrecondition(
    `${target} was replaced by a link to ${found} while it was being mounted on; nothing is mounted. Try again`,
  );

/**
 * Unmounts the layers on the path, from the top down to the first one that does not belong to the
 * caller. Returns whether there was one to unmount. FAILED_PRECONDITION if it is busy.
 */
export async function unmount(
  path: string,
  belongs: (entry: MountEntry) => boolean | Promise<boolean> = () => true,
): Promise<boolean> {
  const target = await kernelPath(path);
  if (target === null) return false;
  let layers = await layersAt(target);
  const before = layers.length;
  for (let top = layers.at(-1); top !== undefined && (await belongs(top)); top = layers.at(-1)) {
    const failure = await tryUnmount(target);
    const left = await layersAt(target);
    if (left.length >= layers.length) {
      throw CsiError.failedPrecondition(
        `${target} cannot be unmounted; end what uses it and try again (${failure?.message ?? 'no effect'})`,
        { cause: failure },
      );
    }
    layers = left;
  }
  return layers.length < before;
}

export async function isMountPoint(path: string): Promise<boolean> {
  return (await topMount(path)) !== null;
}

/** What is seen mounted at the path; null if it is no mount point. */
export async function topMount(path: string): Promise<MountEntry | null> {
  const target = await kernelPath(path);
  return target === null ? null : ((await layersAt(target)).at(-1) ?? null);
}

async function layersAt(path: string): Promise<MountEntry[]> {
  return mountsAt(await readMountInfo(), path);
}

async function tryUnmount(target: string): Promise<Error | null> {
  try {
    await run('umount', [...PLAIN, '--', target], {
      timeoutMs: MOUNT_TIMEOUT_MS,
      mounts: true,
    });
    return null;
  } catch (thrown) {
    if (thrown instanceof ExecError) return thrown;
    throw thrown;
  }
}

async function attempt(
  what: string,
  options: readonly string[],
  args: readonly string[],
): Promise<void> {
  try {
    const secrets = options.filter((option) => option.includes('='));
    await run('mount', args, { timeoutMs: MOUNT_TIMEOUT_MS, secrets, mounts: true });
  } catch (thrown) {
    if (!(thrown instanceof ExecError)) throw thrown;
    throw CsiError.failedPrecondition(`${what} (${thrown.message})`, { cause: thrown });
  }
}
