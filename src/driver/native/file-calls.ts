/**
 * Calls that use node:fs on the files of a pool, beside those of the addon, for the threads of a NativePool. The four threads
 * of node:fs/promises serve the whole process, and a file system that is frozen or does not answer would occupy all four. The
 * calls return failures, as the addon does. Knows no pool.
 */
import fs from 'node:fs';
import { dirname } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import { errorCode, messageOf } from '../../base/errors.js';
import type { NativeFailure, NativeResult } from '../../base/system/native-result.js';
import { readOwnSync } from '../../base/system/own-files.js';
import { type Addon, loadAddon } from './addon.js';
import { LOOK_CALLS } from './look-calls.js';

const MAX_TEXT_BYTES = 4096;

type At = { path: string };
type Names = { from: string; to: string };

const FILE_CALLS = {
  ...LOOK_CALLS,
  /** The names with one of the suffixes: handing tens of thousands of names to another thread takes longer than reading them. */
  readDirectory: ({ path, suffixes = [''] }: At & { suffixes?: readonly string[] }) => ({
    names: fs.readdirSync(path).filter((name) => suffixes.some((each) => name.endsWith(each))),
  }),
  /** The names of the regular files, and those of all other entries. Looks at a file only if its directory lacks its type. */
  readFileTypes: ({ path }: At) => {
    const entries = fs.readdirSync(path, { withFileTypes: true });
    const namesOf = (isFile: boolean) => entries.filter((each) => each.isFile() === isFile).map(({ name }) => name);
    return { files: namesOf(true), others: namesOf(false) };
  },
  /** The trimmed text of a small file of this user (base/system/own-files.ts); null if there is no such file. */
  readText: ({ path }: At) => ({ text: readOwnSync(path, MAX_TEXT_BYTES) }),
  /** The entry at the path; null if there is none. Does not follow a symbolic link. */
  entryOf: ({ path }: At) => ({ entry: unlessAbsent(() => entryOf(path)) }),
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
type FileCalls = { [M in keyof typeof FILE_CALLS]: Answering<(typeof FILE_CALLS)[M]> };

export type Calls = Addon & FileCalls;

/** All calls. Loads the addon into the calling thread. */
export function loadCalls(): Calls {
  const answering = Object.entries(FILE_CALLS).map(([name, call]) => [
    name,
    (request: never): NativeResult<object> => {
      try {
        return { ok: true, ...(call(request) as object | undefined) };
      } catch (thrown) {
        return failureOf(thrown);
      }
    },
  ]);
  return { ...loadAddon(), ...(Object.fromEntries(answering) as FileCalls) };
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

function entryOf(path: string) {
  const found = fs.lstatSync(path, { bigint: true });
  const kind = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other';
  const { dev: device, ino: inode, size: sizeBytes, ctimeNs: changedNs } = found;
  return { kind, device, inode, sizeBytes, changedNs };
}
