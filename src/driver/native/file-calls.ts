/**
 * Calls that use node:fs on the files of a pool, beside those of the addon, for the threads of a NativePool, and calls that do
 * several things in one task. The four threads of node:fs/promises serve the whole process, and a file system that is frozen
 * or does not answer would occupy all four. The calls return failures, as the addon does. Knows no pool.
 */
import fs from 'node:fs';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import { errorCode, messageOf } from '../../base/errors.js';
import { at } from '../../base/system/checked-files.js';
import type { NativeFailure, NativeResult } from '../../base/system/native-result.js';
import { readOwnSync } from '../../base/system/own-files.js';
import { type Addon, loadAddon } from './addon.js';
import { type Look, type LookRequest, lookCalls } from './look-calls.js';

const MAX_TEXT_BYTES = 4096;

type At = { path: string };
type Names = { from: string; to: string };

const FILE_CALLS = {
  /** The trimmed text of a small file of this user (base/system/own-files.ts); null if there is no such file. */
  readText: ({ path }: At) => ({ text: readOwnSync(path, MAX_TEXT_BYTES) }),
  /** The entry at the path; null if there is none. Does not follow a symbolic link. */
  entryOf: ({ path }: At) => ({ entry: unlessAbsent(() => entryOf(path)) }),
  /** Parts of a file or a block device; null for a part that is not there as a whole or cannot be read. */
  readParts: ({ path, parts }: At & { parts: readonly { offset: number; length: number }[] }) => {
    const file = fs.openSync(path, 'r');
    try {
      return { parts: parts.map(({ offset, length }) => partOf(file, offset, length)) };
    } finally {
      fs.closeSync(file);
    }
  },
  /** The space of the file system that holds `path`, bytes. */
  spaceOf: ({ path }: At) => {
    const { blocks, bavail, bsize } = fs.statfsSync(path, { bigint: true });
    return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
  },
  /** Makes the content of the file durable, but not its name. */
  writeText: ({ path, text }: At & { text: string }) =>
    fs.writeFileSync(path, text, { mode: 0o600, flush: text !== '' }),
  renameFile: ({ from, to }: Names) => fs.renameSync(from, to),
  /** EEXIST if `to` exists. */
  linkFile: ({ from, to }: Names) => fs.linkSync(from, to),
  /** Succeeds if the file is gone already. The removal is not durable (that of removeFile is). */
  unlinkFile: ({ path }: At) => void unlessAbsent(() => fs.unlinkSync(path)),
  /** Succeeds if the directory exists already. Makes its name durable, whoever created it. */
  makeDirectory: ({ path }: At): object => {
    fs.mkdirSync(path, { recursive: true, mode: 0o700 });
    return loadAddon().flush({ path: dirname(path) });
  },
};

type Answering<C> = C extends (request: infer R) => infer V
  ? (request: R) => NativeResult<V extends object ? V : object>
  : never;
type PlainCalls = typeof FILE_CALLS & ReturnType<typeof lookCalls>;
type FileCalls = { [M in keyof PlainCalls]: Answering<PlainCalls[M]> };

type ThenLook = { look?: LookRequest };
type ThenLooking<C> = C extends (request: infer R) => NativeResult<infer V>
  ? (request: R & ThenLook) => NativeResult<V & { seen: Look | null }>
  : never;

/** Calls that are followed by a look in the same task, if their caller wants one. `seen` is null if that look fails. */
interface LookingCalls {
  unmountLayer: ThenLooking<Addon['unmountLayer']>;
  mountFileSystem: ThenLooking<Addon['mountFileSystem']>;
}

export interface FindAndLookRequest {
  /** A directory, and directories in it, as for openDirectories. */
  root: string;
  names: string[];
  /** The name of the backing file in the first of `names`. */
  file: string;
  /** As for loopFind. */
  hint: number | null;
  /** Names no device: the look is at the device that is found. */
  look: LookRequest;
}

export type Calls = Omit<Addon, keyof LookingCalls> &
  FileCalls &
  LookingCalls & {
    /** Opens the directories, finds the loop device of a file and looks around, and closes the directories. */
    findAndLook(
      request: FindAndLookRequest,
    ): NativeResult<ValueOf<Addon['loopFind']> & { directories: { device: bigint; inode: bigint }[]; seen: Look }>;
  };

type ValueOf<C> = C extends (request: never) => NativeResult<infer V> ? V : never;

/** All calls. Loads the addon into the calling thread. */
export function loadCalls(): Calls {
  const addon = loadAddon();
  const looking = lookCalls((paths, devices) => {
    const around = addon.mountsAround({ paths, devices });
    return around.ok ? around.mounts : null;
  });
  const answering = Object.entries({ ...FILE_CALLS, ...looking }).map(([name, call]) => [
    name,
    (request: never): NativeResult<object> => {
      try {
        return { ok: true, ...(call(request) as object | undefined) };
      } catch (thrown) {
        return failureOf(thrown);
      }
    },
  ]);
  const files = Object.fromEntries(answering) as FileCalls;
  const thenLooking =
    <R, V extends object>(call: (request: R) => NativeResult<V>) =>
    ({ look, ...request }: R & ThenLook): NativeResult<V & { seen: Look | null }> => {
      const done = call(request as R);
      if (!done.ok) return done;
      const seen = look && files.look(look);
      return { ...done, seen: seen?.ok ? seen : null };
    };
  return {
    ...addon,
    ...files,
    unmountLayer: thenLooking(addon.unmountLayer),
    mountFileSystem: thenLooking(addon.mountFileSystem),
    findAndLook: (request) => findAndLook(addon, files, request),
  };
}

function findAndLook(
  addon: Addon,
  files: FileCalls,
  { root, names, file, hint, look }: FindAndLookRequest,
): ReturnType<Calls['findAndLook']> {
  const opened = addon.openDirectories({ root, names });
  if (!opened.ok) return opened;
  const { directories } = opened;
  try {
    const backingPath = `${at(directories[1]?.descriptor ?? -1)}/${file}`;
    const found = addon.loopFind({ backingPath, hint });
    if (!found.ok) return found;
    const seen = files.look({ ...look, devicePath: found.device?.path ?? null });
    return seen.ok ? { ...found, directories, seen } : seen;
  } finally {
    for (const { descriptor } of directories) fs.closeSync(descriptor);
  }
}

/** Words the failure as Node.js does, without the second path of a call. */
function failureOf(thrown: unknown): NativeFailure {
  const { errno = 0, syscall = '', path = '' } = thrown as NodeJS.ErrnoException;
  const code = errorCode(thrown) ?? 'EIO';
  const found = { ok: false, code, errno: -errno, syscall, path } as const;
  if (path === '') return { ...found, before: messageOf(thrown), after: '' };
  const description = getSystemErrorMap().get(errno)?.[1] ?? 'unknown error';
  return { ...found, before: `${code}: ${description}, ${syscall} '`, after: "'" };
}

function unlessAbsent<T>(call: () => T): T | null {
  try {
    return call();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}

function partOf(file: number, offset: number, length: number): Uint8Array | null {
  const part = new Uint8Array(length);
  try {
    return fs.readSync(file, part, 0, length, offset) === length ? part : null;
  } catch {
    return null;
  }
}

function entryOf(path: string) {
  const found = fs.lstatSync(path, { bigint: true });
  const kind = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other';
  const { dev: device, ino: inode, size: sizeBytes, ctimeNs: changedNs } = found;
  return { kind, device, inode, sizeBytes, changedNs };
}
