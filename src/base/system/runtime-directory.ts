/**
 * The directory in which commands keep files while they run: sockets, and records of changes that have to be undone.
 *
 * Each use has an entry, which is a directory of its own in the runtime directory, and holds a lock on the entry. The kernel
 * releases the lock when the process ends, however it ends. So an entry that can be locked was left by a killed command,
 * whatever step the command was at. A command that holds the lock may remove the entry, so two commands never do so at once.
 *
 * Nobody else may write to the directory, and nothing in it is trusted unchecked: every file is opened relative to a descriptor
 * and never through a link, and must be ours. Nothing is removed recursively.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { CsiError, errorCode, messageOf } from '../errors.js';
import { at, createNewSync, openDirectorySync } from './checked-files.js';
import { effectiveUser, isOwn, ownDirectory, readOwnSync } from './own-files.js';

export const RUNTIME_DIRECTORY_SETTING = 'BLOCKDELTA_RUNTIME_DIR';
const REMEDY = `set ${RUNTIME_DIRECTORY_SETTING} to a directory that only you can write to`;

/** The runtime directory of this user. FAILED_PRECONDITION if the environment names none, or a relative path. */
export function runtimePath(env: NodeJS.ProcessEnv, userId = effectiveUser()): string {
  const user = env['XDG_RUNTIME_DIR'] || null;
  const given = env[RUNTIME_DIRECTORY_SETTING] || null;
  const path = given ?? (userId === 0 ? '/run' : user);
  if (path !== null && isAbsolute(path)) return given ?? join(path, 'blockdelta');
  throw CsiError.failedPrecondition(
    path === null
      ? `neither XDG_RUNTIME_DIR nor ${RUNTIME_DIRECTORY_SETTING} is set, so there is no directory for sockets and ` +
          `records: set ${RUNTIME_DIRECTORY_SETTING} to a directory that only you can write to`
      : `the runtime directory is '${path}' by the environment: it must be an absolute path`,
  );
}

export interface RuntimeOptions {
  /** Locks an open file for this process without waiting. Returns false if another process has the lock. */
  tryLock(descriptor: number): boolean;
  /** Called with a sentence that names the path of an entry which stays although no command uses it any more. */
  report(message: string): void;
}

export class RuntimeDirectory {
  private constructor(
    /** The path without links. */
    readonly path: string,
    private readonly descriptor: number,
    private readonly options: RuntimeOptions,
  ) {}

  /** Makes the directory if it is missing; its parent must exist. FAILED_PRECONDITION if others could change its content. */
  static async open(path: string, options: RuntimeOptions): Promise<RuntimeDirectory> {
    try {
      makeDirectory(path);
      const descriptor = openDirectorySync(path);
      const resolved = await ownDirectory(readlinkSync(at(descriptor)), REMEDY);
      return new RuntimeDirectory(resolved, descriptor, options);
    } catch (thrown) {
      const code = errorCode(thrown);
      if (code === undefined) throw thrown;
      // The kernel returns these codes for a link and for any other file.
      const isOther = code === 'ENOTDIR' || code === 'ELOOP';
      throw unusable(path, isOther ? 'it is not a directory' : `${code}`, thrown);
    }
  }

  close(): void {
    closeSync(this.descriptor);
  }

  report(message: string): void {
    this.options.report(message);
  }

  /** Makes a new entry, which this process holds. */
  make(kind: string): RuntimeEntry {
    for (;;) {
      const name = `${kind}-${randomBytes(8).toString('hex')}`;
      mkdirSync(at(this.descriptor, name), { mode: 0o700 });
      const entry = this.#hold(name);
      // Null if, between the two steps, a command that sweeps took the new entry for an entry that was left.
      if (entry !== null) return entry;
    }
  }

  /**
   * Calls `treat` with each entry of this kind that a killed command has left, and holds the entry meanwhile. An entry that
   * cannot be treated is reported and stays, and the sweep continues with the next entry.
   */
  async sweep(kind: string, treat: (entry: RuntimeEntry) => Promise<void> | void): Promise<void> {
    const names = readdirSync(at(this.descriptor)).filter((name) => isNameOf(kind, name));
    for (const name of names.sort()) {
      let entry: RuntimeEntry | null = null;
      try {
        entry = this.#hold(name);
        if (entry !== null) await treat(entry);
      } catch (thrown) {
        if (!(thrown instanceof CsiError) && errorCode(thrown) === undefined) throw thrown;
        this.report(
          `${join(this.path, name)} is no longer used by a command, but was not removed: ${messageOf(thrown)}`,
        );
      } finally {
        entry?.release();
      }
    }
  }

  /** Returns null if another process holds the entry, or if the entry is gone. */
  #hold(name: string): RuntimeEntry | null {
    const path = at(this.descriptor, name);
    let descriptor: number;
    try {
      descriptor = openDirectorySync(path);
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') return null;
      throw notOurs('it is not a directory', thrown);
    }
    try {
      const opened = fstatSync(descriptor);
      if (!isOwn(opened)) throw notOurs(`it belongs to user ${opened.uid}`);
      // The entry may have been removed before it was locked.
      if (this.options.tryLock(descriptor) && lstatOf(path)?.ino === opened.ino) {
        return new RuntimeEntry(join(this.path, name), descriptor, this.descriptor, name);
      }
    } catch (thrown) {
      closeSync(descriptor);
      throw thrown;
    }
    closeSync(descriptor);
    return null;
  }
}

/** A directory that this process holds. */
export class RuntimeEntry {
  #isHeld = true;

  constructor(
    /** The path for other programs. */
    readonly path: string,
    private readonly descriptor: number,
    private readonly parent: number,
    private readonly name: string,
  ) {}

  /** A random text that no other entry ever has. */
  get id(): string {
    return this.name.slice(-ID_DIGITS);
  }

  /**
   * The trimmed text of a file in the entry; null if there is no file.
   *
   * @throws CsiError FAILED_PRECONDITION if it is not a regular file of ours with at most `maxBytes`
   */
  read(file: string, maxBytes: number): string | null {
    return readOwnSync(at(this.descriptor, file), maxBytes, file);
  }

  /** Replaces a file. A kill or a power failure at any step leaves either the old text or the new text. */
  write(file: string, text: string): void {
    const [path, next] = [at(this.descriptor, file), at(this.descriptor, `${file}.next`)];
    removeFile(next);
    const descriptor = createNewSync(next);
    try {
      writeFileSync(descriptor, text);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(next, path);
    fsyncSync(this.descriptor);
  }

  /** The path of a file in the entry, for other programs. */
  pathOf(name: string): string {
    return join(this.path, name);
  }

  /** Makes a directory in the entry and returns its path. */
  makeDirectory(name: string): string {
    makeDirectory(at(this.descriptor, name));
    return this.pathOf(name);
  }

  /**
   * Removes the entry with its files and empty directories, and releases it. Directories go first, so that every file stays
   * if something is still mounted on a directory. Throws FAILED_PRECONDITION if anything cannot be removed.
   */
  discard(): void {
    const entries = readdirSync(at(this.descriptor), { withFileTypes: true });
    const names = entries.sort((a, b) => Number(b.isDirectory()) - Number(a.isDirectory()));
    let current = this.name;
    try {
      for (const each of names) {
        current = each.name;
        const path = at(this.descriptor, each.name);
        if (each.isDirectory()) rmdirSync(path);
        else removeFile(path);
      }
      rmdirSync(at(this.parent, this.name));
    } catch (thrown) {
      throw notOurs(`${current} cannot be removed (${errorCode(thrown)})`, thrown);
    }
    this.release();
  }

  /** Releases the lock. The entry stays, and may be swept. */
  release(): void {
    if (this.#isHeld) closeSync(this.descriptor);
    this.#isHeld = false;
  }
}

const ID_DIGITS = 16;

const isNameOf = (kind: string, name: string): boolean =>
  name.startsWith(`${kind}-`) && /^[0-9a-f]{16}$/.test(name.slice(kind.length + 1));

function makeDirectory(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (thrown) {
    if (errorCode(thrown) !== 'EEXIST') throw thrown;
  }
}

function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (thrown) {
    if (errorCode(thrown) !== 'ENOENT') throw thrown;
  }
}

function lstatOf(path: string): Stats | null {
  return lstatSync(path, { throwIfNoEntry: false }) ?? null;
}

function unusable(path: string, found: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(`the runtime directory ${path} cannot be used: ${found}; ${REMEDY}`, { cause });
}

function notOurs(found: string, cause?: unknown): CsiError {
  return CsiError.failedPrecondition(`${found}; look at what is there and remove it`, { cause });
}
