/**
 * The directories of a pool, held open for one operation.
 *
 * Every system call resolves a path anew, so a mount or unmount between two calls could send the second
 * one to another file system. Here each directory is opened once, verified through its descriptor, and
 * every name in it is reached through that descriptor (/proc/self/fd/N/name, shared by all threads of the
 * process). The descriptors are closed when the operation ends, because they would keep the operator from
 * unmounting the pool. Knows directories, not what they hold.
 */
import { closeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { SystemError } from '../../../base/errors.js';
import { at } from '../../../base/system/checked-files.js';
import type { NativeRunner } from '../../native/pool.js';
import { PoolLayout } from './pool-layout.js';

/** Distinguishes directories for as long as their file system stays mounted. */
export interface DirectoryIdentity {
  device: bigint;
  inode: bigint;
}

interface OpenDirectory extends DirectoryIdentity {
  descriptor: number;
  /** The path it was opened by, for messages. */
  path: string;
}

export class OpenDirectories {
  readonly #layout: PoolLayout;
  #isClosed = false;

  private constructor(
    readonly native: NativeRunner,
    private readonly root: OpenDirectory,
    private readonly parts: readonly OpenDirectory[],
  ) {
    const [volumes, snapshots, initialized] = parts.map(pathOf);
    if (volumes === undefined || snapshots === undefined || initialized === undefined) {
      throw new Error('a pool has three directories');
    }
    this.#layout = new PoolLayout(pathOf(root), { volumes, snapshots, initialized });
  }

  /** Follows a symbolic link to the pool, but none inside it. Rejects with the errors of open(2). */
  static async open(native: NativeRunner, layout: PoolLayout): Promise<OpenDirectories> {
    const { directories } = await native.run('openDirectories', { root: layout.root, names: layout.names });
    const [root, ...parts] = directories.map((directory, index) => ({
      ...directory,
      path: [layout.root, ...layout.directories][index] ?? layout.root,
    }));
    if (root === undefined) throw new Error('openDirectories opened no root');
    return new OpenDirectories(native, root, parts);
  }

  /** The pool by paths that lead through the descriptors and are valid until close(). Throws after close(). */
  get layout(): PoolLayout {
    if (this.#isClosed) throw new Error('the directories of the pool were used after their end');
    return this.#layout;
  }

  /** The pool's root directory first. */
  get identities(): DirectoryIdentity[] {
    return identitiesOf([this.root, ...this.parts]);
  }

  /**
   * A directory of the pool that something is mounted over; null if there is none. Compares mount ids, because st_dev does
   * not tell: a btrfs subvolume has its own st_dev without a mount, and a directory of the same file system may be bound there.
   */
  async displaced(): Promise<string | null> {
    const own = await mountOf(this.root);
    for (const part of this.parts) if ((await mountOf(part)) !== own) return part.path;
    return null;
  }

  /** The error with the real path in place of a path through a descriptor, which means nothing to an operator. */
  withRealPath(thrown: unknown): unknown {
    if (!(thrown instanceof SystemError)) return thrown;
    const { path } = thrown;
    const directory = [this.root, ...this.parts].find((each) => `${path}/`.startsWith(`${pathOf(each)}/`));
    return directory === undefined ? thrown : thrown.at(directory.path + path.slice(pathOf(directory).length));
  }

  /** Never waits: an O_PATH descriptor has nothing to write back. May be called again. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const { descriptor } of [this.root, ...this.parts]) closeSync(descriptor);
  }
}

export function identitiesOf(directories: readonly DirectoryIdentity[]): DirectoryIdentity[] {
  return directories.map(({ device, inode }) => ({ device, inode }));
}

/** The id of the mount that the open directory is in. */
async function mountOf({ descriptor }: OpenDirectory): Promise<string> {
  const info = await readFile(`/proc/self/fdinfo/${descriptor}`, 'utf8');
  const mount = /^mnt_id:\s*(\d+)$/m.exec(info)?.[1];
  if (mount === undefined) throw new Error(`/proc/self/fdinfo/${descriptor} names no mount`);
  return mount;
}

const pathOf = ({ descriptor }: OpenDirectory): string => at(descriptor);
