/**
 * The directories of a pool, held open for one operation.
 *
 * Every system call resolves a path anew, so a mount or unmount between two calls could send the second
 * one to another file system. Here each directory is opened once, verified through its descriptor, and
 * every name in it is reached through that descriptor (/proc/self/fd/N/name, shared by all threads of the
 * process). The descriptors are closed when the operation ends, because they would keep the operator from
 * unmounting the pool. Knows directories, not what they hold.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorCode, SystemError } from '../../base/errors.js';
import { PoolLayout } from './pool-layout.js';

/** Missing from Node's constants; the same on every architecture that Node.js supports under Linux. */
const O_PATH = 0o10000000;
const DIRECTORY = O_PATH | constants.O_DIRECTORY;

/** Distinguishes directories for as long as their file system stays mounted. */
export interface DirectoryIdentity {
  device: bigint;
  inode: bigint;
}

interface OpenDirectory extends DirectoryIdentity {
  handle: FileHandle;
  /** The path it was opened by, for messages. */
  path: string;
}

export class OpenDirectories {
  /** Its paths lead through the descriptors; valid until close(). */
  readonly layout: PoolLayout;
  private constructor(
    private readonly root: OpenDirectory,
    private readonly parts: readonly OpenDirectory[],
  ) {
    const [volumes, snapshots, initialized] = parts.map(pathOf);
    if (volumes === undefined || snapshots === undefined || initialized === undefined) {
      throw new Error('a pool has three directories');
    }
    this.layout = new PoolLayout(pathOf(root), { volumes, snapshots, initialized });
  }

  /** Follows a symbolic link to the pool, but none inside it. Rejects with the errors of open(2). */
  static async open(layout: PoolLayout): Promise<OpenDirectories> {
    const opened: OpenDirectory[] = [];
    const openOne = async (path: string, at: string, flags: number): Promise<OpenDirectory> => {
      const handle = await open(at, flags);
      const directory = { handle, path, device: 0n, inode: 0n };
      opened.push(directory);
      const { dev, ino } = await handle.stat({ bigint: true });
      return Object.assign(directory, { device: dev, inode: ino });
    };
    try {
      const root = await openOne(layout.root, layout.root, DIRECTORY);
      const parts: OpenDirectory[] = [];
      for (const path of layout.directories) {
        const at = `${pathOf(root)}/${basename(path)}`;
        parts.push(await openOne(path, at, DIRECTORY | constants.O_NOFOLLOW));
      }
      return new OpenDirectories(root, parts);
    } catch (thrown) {
      await Promise.all(opened.map(({ handle }) => handle.close()));
      throw thrown;
    }
  }

  /** The pool's root directory first. */
  get identities(): DirectoryIdentity[] {
    return [this.root, ...this.parts].map(({ device, inode }) => ({ device, inode }));
  }

  /**
   * A directory of the pool that something is mounted over; null: none. By mount, because st_dev does not tell: a
   * btrfs subvolume has one of its own without being mounted, and a directory of the same file system may be bound there.
   */
  async displaced(): Promise<string | null> {
    const own = await mountOf(this.root);
    for (const part of this.parts) if ((await mountOf(part)) !== own) return part.path;
    return null;
  }

  /** The error with real paths in place of those through descriptors, which mean nothing to an operator. */
  withRealPaths(thrown: unknown): unknown {
    const code = errorCode(thrown);
    if (!(thrown instanceof Error) || code === undefined) return thrown;
    const { path = '', syscall = '' } = thrown as NodeJS.ErrnoException;
    const message = this.#realPaths(thrown.message);
    const named = new SystemError(code, syscall, this.#realPaths(path), message);
    return Object.assign(named, { cause: thrown });
  }

  async close(): Promise<void> {
    await Promise.all([this.root, ...this.parts].map(({ handle }) => handle.close()));
  }

  #realPaths(text: string): string {
    return [this.root, ...this.parts].reduce(
      (replaced, directory) =>
        replaced.replaceAll(new RegExp(`${pathOf(directory)}(?!\\d)`, 'g'), () => directory.path),
      text,
    );
  }
}

/** The id of the mount that the open directory is in. */
async function mountOf({ handle }: OpenDirectory): Promise<string> {
  const info = await readFile(`/proc/self/fdinfo/${handle.fd}`, 'utf8');
  const mount = /^mnt_id:\s*(\d+)$/m.exec(info)?.[1];
  if (mount === undefined) throw new Error(`/proc/self/fdinfo/${handle.fd} names no mount`);
  return mount;
}

const pathOf = ({ handle }: OpenDirectory): string => `/proc/self/fd/${handle.fd}`;
