/**
 * Mounts file systems on this node. Idempotent: mountinfo says which mounts exist already.
 *
 * Paths are absolute, and their last component is no symbolic link (see target.ts). Options may be sensitive, so no error
 * contains them. Knows nothing of volumes; layers.ts handles single layers.
 */
import { stat } from 'node:fs/promises';
import { CsiError, SystemError } from '../../base/errors.js';
import { isOfDevice, type MountEntry, mountsAt, readMountInfo } from '../../base/system/mountinfo.js';
import type { Look, LookRequest } from '../native/look-calls.js';
import type { NativeRunner } from '../native/pool.js';
import { attributesOf, isOfMount } from './layers.js';
import { kernelPath } from './target.js';

export interface MountRequest {
  /** A block device. */
  source: string;
  /** Its st_rdev, if the caller knows it. */
  rdev?: number;
  target: string;
  fsType: string;
  /** Options as for `mount -o`, one per element. */
  options: readonly string[];
  /** The target contains no symbolic link. A link that appears in the target later is refused, not followed. */
  isResolved?: boolean;
  /** The current mounts, if the caller has just read them. */
  before?: readonly MountEntry[];
  /** Looks at the target among others, and at the source; used in place of all mounts of the node. */
  look?: LookRequest;
}

/**
 * Mounts the file system of a block device, unless that file system is the top layer on the target already. Returns the mounts
 * afterwards. FAILED_PRECONDITION if the kernel refuses. The call has no time limit: the kernel replays a journal to its end,
 * whether or not anybody waits for the call.
 */
export async function mount(native: NativeRunner, request: MountRequest): Promise<readonly MountEntry[]> {
  const { source, target, fsType, options, look } = request;
  const rdev = request.rdev ?? (await stat(source)).rdev;
  const path = request.isResolved === true ? target : await kernelPath(target);
  if (path === null) {
    throw CsiError.failedPrecondition(`${source} (${fsType}) cannot be mounted on ${target}: no such directory`);
  }
  const isDone = (mounts: readonly MountEntry[]): boolean => {
    const top = mountsAt(mounts, path).at(-1);
    return top !== undefined && isOfDevice(top, rdev) && top.fsType === fsType;
  };
  const before = request.before ?? (await readMountInfo());
  if (isDone(before)) return before;
  const readOnly = options.includes('ro');
  let seen: Look | null;
  try {
    ({ seen } = await native.run('mountFileSystem', {
      source,
      fsType,
      target: path,
      options: [readOnly ? 'ro' : 'rw', ...options.filter((option) => !isOfMount(option))],
      set: attributesOf({ readOnly, options }).set,
      ...(look && { look }),
    }));
  } catch (thrown) {
    if (!(thrown instanceof SystemError)) throw thrown;
    const cause = withoutValues(thrown, options);
    throw CsiError.failedPrecondition(
      `${source} (${fsType}) cannot be mounted on ${target}${remedyOf(thrown)} (${cause.message})`,
      { cause },
    );
  }
  const after = seen?.mounts ?? (await readMountInfo());
  if (isDone(after)) return after;
  throw CsiError.internal(`mounting ${source} on ${target} had no effect that mountinfo shows`);
}

/** The kernel may quote an option value that it refuses. Replaces each value where the value is a word of its own. */
function withoutValues(failure: SystemError, options: readonly string[]): SystemError {
  const values = options
    .filter((option) => option.includes('='))
    .map((option) => option.slice(option.indexOf('=') + 1).replaceAll(/[^\w]/g, '\\$&'))
    .filter((value) => value !== '');
  const message = values.reduce(
    (text, value) => text.replaceAll(new RegExp(`(?<![\\w/])${value}(?!\\w)`, 'g'), '***'),
    failure.message,
  );
  return new SystemError(failure.code, failure.syscall, failure.path, message);
}

function remedyOf({ code }: SystemError): string {
  switch (code) {
    case 'ELOOP':
      return ': a symbolic link has come into the path since it was resolved; nothing is mounted. Try again';
    case 'EBUSY':
      return ': the device or the directory is in use; end what uses it and try again';
    case 'EINVAL':
      return ': the kernel refuses the file system or an option; its log (dmesg) has the reason';
    default:
      return '';
  }
}

/** The top mount at the path; null if the path is no mount point. */
export async function topMount(path: string): Promise<MountEntry | null> {
  const target = await kernelPath(path);
  return target === null ? null : (mountsAt(await readMountInfo(), target).at(-1) ?? null);
}
