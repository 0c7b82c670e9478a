/**
 * What is done to the files of a pool with node:fs, as calls beside those of the addon, for the threads of the pool. The
 * four threads of node:fs/promises serve the whole process, and a file system that is frozen or does not answer would
 * hold them all. Failures are returned, as by the addon. Knows no pool.
 */
import fs from 'node:fs';
import { dirname } from 'node:path';
import { errorCode, messageOf } from '../../base/errors.js';
import { readOwnSync } from '../../base/own-files.js';
import type { NativeResult } from '../../base/system/native-result.js';
import { type Addon, loadAddon } from './addon.js';

const MAX_TEXT_BYTES = 4096;

type At = { path: string };
type Names = { from: string; to: string };

const FILE_CALLS = {
  readDirectory: ({ path }: At) => ({ names: fs.readdirSync(path) }),
  /** Trimmed, of a small file of this user (own-files.ts); null: there is no such file. */
  readText: ({ path }: At) => ({ text: readOwnSync(path, MAX_TEXT_BYTES) }),
  /** Null: there is nothing. Does not follow a symbolic link. */
  entryOf: ({ path }: At) => ({ entry: unlessAbsent(() => entryOf(path)) }),
  /** Of the file system that holds `path`, bytes. */
  spaceOf: ({ path }: At) => {
    const { blocks, bavail, bsize } = fs.statfsSync(path, { bigint: true });
    return { totalBytes: blocks * bsize, freeBytes: bavail * bsize };
  },
  /** What is in the file is durable afterwards, its name is not. */
  writeText: ({ path, text }: At & { text: string }) =>
    fs.writeFileSync(path, text, { mode: 0o600, flush: text !== '' }),
  renameFile: ({ from, to }: Names) => fs.renameSync(from, to),
  /** EEXIST if there is something at `to`. */
  linkFile: ({ from, to }: Names) => fs.linkSync(from, to),
  /** Unless it is gone; not durable (removeFile is). */
  unlinkFile: ({ path }: At) => void unlessAbsent(() => fs.unlinkSync(path)),
  /** Unless it exists; durable, whoever made it. */
  makeDirectory: ({ path }: At): object => {
    fs.mkdirSync(path, { recursive: true, mode: 0o700 });
    return loadAddon().flush({ path: dirname(path) });
  },
};

type Answering<C> = C extends (request: infer R) => infer V
  ? (request: R) => NativeResult<V extends object ? V : object>
  : never;
type FileCalls = { [M in keyof typeof FILE_CALLS]: Answering<(typeof FILE_CALLS)[M]> };

export type Calls = Addon & FileCalls;

/** With the addon, which is loaded into the calling thread. */
export function loadCalls(): Calls {
  const answering = Object.entries(FILE_CALLS).map(([name, call]) => [
    name,
    (request: never): NativeResult<object> => {
      try {
        return { ok: true, ...(call(request) as object | undefined) };
      } catch (thrown) {
        const { errno = 0, syscall = '', path = '' } = thrown as NodeJS.ErrnoException;
        const code = errorCode(thrown) ?? 'EIO';
        return { ok: false, code, errno: -errno, syscall, path, message: messageOf(thrown) };
      }
    },
  ]);
  return { ...loadAddon(), ...(Object.fromEntries(answering) as FileCalls) };
}

function unlessAbsent<T>(call: () => T): T | null {
  try {
    return call();
  } catch (thrown) {
    if (errorCode(thrown) === 'ENOENT') return null;
    throw thrown;
  }
}

function entryOf(path: string) {
  const found = fs.lstatSync(path, { bigint: true });
  const kind = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other';
  const { dev: device, ino: inode, size: sizeBytes, ctimeNs: changedNs } = found;
  return { kind, device, inode, sizeBytes, changedNs };
}
