/**
 * The directories of a pool, held open for the length of one operation.
 *
 * A path is resolved anew by every system call, so what is mounted over the pool, or unmounted, between
 * two of them would send the second one elsewhere. Here each directory is opened once, judged by what was
 * opened, and every name in it is reached through its descriptor (/proc/self/fd/N/name, which all threads
 * of the process share). Descriptors are closed when the operation ends: kept longer, they would keep the
 * operator from unmounting the pool. Knows directories, not what lies in them.
 */
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { basename } from 'node:path';
import { errorCode, SystemError } from '../../base/errors.js';
import { PoolLayout } from './pool-layout.js';

/** Not among Node's constants; the same on every processor that Node.js runs on under Linux. */
const O_PATH = 0o10000000;
const DIRECTORY = O_PATH | constants.O_DIRECTORY;

/** What tells one directory from another, as long as its file system stays mounted. */
export interface DirectoryIdentity {
  device: bigint;
  inode: bigint;
}

interface HeldDirectory extends DirectoryIdentity {
  handle: FileHandle;
  /** Where it was found, for people. */
  path: string;
}

export class HeldDirectories {
  /** Its paths lead through the descriptors, and are good until close. */
  readonly layout: PoolLayout;
  /** st_dev of everything in the pool. */
  readonly device: bigint;

  private constructor(
    private readonly root: HeldDirectory,
    private readonly parts: readonly HeldDirectory[],
  ) {
    this.device = root.device;
    const [volumes, snapshots, used] = parts.map(pathOf);
    if (volumes === undefined || snapshots === undefined || used === undefined) {
      throw new Error('a pool has three directories');
    }
    this.layout = new PoolLayout(pathOf(root), { volumes, snapshots, used });
  }

  /** Follows a symbolic link to the pool, and none inside it. Errors of open(2) come as they are. */
  static async open(layout: PoolLayout): Promise<HeldDirectories> {
    const opened: HeldDirectory[] = [];
    const hold = async (path: string, at: string, flags: number): Promise<HeldDirectory> => {
      const handle = await open(at, flags);
      const held = { handle, path, device: 0n, inode: 0n };
      opened.push(held);
      const { dev, ino } = await handle.stat({ bigint: true });
      return Object.assign(held, { device: dev, inode: ino });
    };
    try {
      const root = await hold(layout.root, layout.root, DIRECTORY);
      const parts: HeldDirectory[] = [];
      for (const path of layout.directories) {
        const at = `${pathOf(root)}/${basename(path)}`;
        parts.push(await hold(path, at, DIRECTORY | constants.O_NOFOLLOW));
      }
      return new HeldDirectories(root, parts);
    } catch (thrown) {
      await Promise.all(opened.map(({ handle }) => handle.close()));
      throw thrown;
    }
  }

  /** The pool's directory first. */
  get identities(): DirectoryIdentity[] {
    return [this.root, ...this.parts].map(({ device, inode }) => ({ device, inode }));
  }

  /** A directory of the pool that lies on another file system, as when something is mounted over it. */
  get strayed(): string | null {
    return this.parts.find(({ device }) => device !== this.device)?.path ?? null;
  }

  /** An error as it would be if the paths had been used: people know nothing of our descriptors. */
  named(thrown: unknown): unknown {
    const code = errorCode(thrown);
    if (!(thrown instanceof Error) || code === undefined) return thrown;
    const { path = '', syscall = '' } = thrown as NodeJS.ErrnoException;
    const named = new SystemError(code, syscall, this.#name(path), this.#name(thrown.message));
    return Object.assign(named, { cause: thrown });
  }

  async close(): Promise<void> {
    await Promise.all([this.root, ...this.parts].map(({ handle }) => handle.close()));
  }

  #name(text: string): string {
    return [this.root, ...this.parts].reduce(
      (named, held) => named.replaceAll(new RegExp(`${pathOf(held)}(?!\\d)`, 'g'), () => held.path),
      text,
    );
  }
}

const pathOf = ({ handle }: HeldDirectory): string => `/proc/self/fd/${handle.fd}`;
