/**
 * The directory of a reflink pool: prepared and claimed at the start, verified by every operation.
 *
 *   <directory>/pool-owner   uuid of the catalogue that serves the pool
 *   <directory>/pool.img     only with an embedded pool; see embedded-pool.ts
 *   <root>/pool-id           the pool's own uuid, and its version; root is the directory or where the image is mounted
 *
 * Every operation opens the directories, verifies that they are those of the start, and works through
 * their descriptors, so a file system that is mounted over the pool receives nothing meant for it.
 *
 * Knows where volumes and snapshots are, and nothing about them.
 */
import { randomUUID } from 'node:crypto';
import { basename, dirname } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { CsiError, errorCode } from '../../../base/errors.js';
import { withTimeout } from '../../../base/timeout.js';
import type { NativeRunner } from '../../native/pool.js';
import type { PoolSpace } from '../pool-account.js';
import { claimDirectory, type PoolClaim, readIdentity } from '../pool-claim.js';
import { assertRetainedDirectories } from '../retained/retained-directories.js';
import { EmbeddedPool, type EmbeddedPoolOptions } from './embedded-pool.js';
import { type DirectoryIdentity, identitiesOf, OpenDirectories } from './open-directories.js';
import { formatPoolId, PoolLayout, poolUuidIn, temporary } from './pool-layout.js';
import { SharedOpening } from './shared-opening.js';

export interface ReflinkPoolOptions extends PoolClaim, EmbeddedPoolOptions {}

/** A directory on a dead disk never answers. */
const OPEN_TIMEOUT_MS = 5000;

/** Errnos of a call that uses or makes a directory where something else is. */
const NO_DIRECTORY: ReadonlySet<string | undefined> = new Set(['ENOTDIR', 'EEXIST']);

export class PoolDirectory {
  readonly #native: NativeRunner;
  readonly #options: ReflinkPoolOptions;
  readonly #embedded: EmbeddedPool;
  #layout: PoolLayout;
  #usesEmbedded = false;
  /** The pool's directories at the start, as OpenDirectories lists them; empty before the start. */
  #identities: DirectoryIdentity[] = [];
  #uuid: string | null = null;
  /** Whether work of useAtOnce has not ended. */
  #isAtOnce = false;
  readonly #opening = new SharedOpening(() => this.#openChecked());

  constructor(native: NativeRunner, options: ReflinkPoolOptions) {
    this.#native = native;
    this.#options = options;
    this.#embedded = new EmbeddedPool(native, options);
    this.#layout = new PoolLayout(options.directory);
  }

  get layout(): PoolLayout {
    return this.#layout;
  }

  /** Whether the pool is an image in the directory; known once it has started. */
  get usesEmbedded(): boolean {
    return this.#usesEmbedded;
  }

  async start(expected: 'any' | 'existing'): Promise<void> {
    const { directory } = this.#options;
    if (expected === 'existing') await this.#assertExists();
    await this.#native.run('makeDirectory', { path: directory });
    // Decided first, so that a refusal leaves nothing in the directory.
    const needsEmbedded = await this.#needsEmbedded();
    await claimDirectory(this.#native, this.#options);
    if (needsEmbedded) {
      // Set first: from here on stop() has something to release.
      this.#usesEmbedded = true;
      await this.#embedded.start();
      this.#layout = new PoolLayout(this.#embedded.mountPoint);
    }
    // Read first, so that a pool of an unknown version is refused before anything in it is changed.
    await this.#uuidOf(this.#layout);
    await this.#native.run('makeSubvolume', {
      temporaryPath: temporary(this.#layout.volumes),
      finalPath: this.#layout.volumes,
    });
    for (const path of this.#layout.directories) await this.#native.run('makeDirectory', { path });
    await this.#native.run('flush', { path: this.#layout.root });
    await this.#recordIdentities();
    // Devices attached by an earlier release may still be in use.
    await this.#native.run('endUnsafeDirectIo', { directory: this.#layout.volumes });
  }

  async stop(): Promise<void> {
    if (this.#usesEmbedded) await this.#embedded.stop();
  }

  async identity(): Promise<string> {
    this.#uuid = await this.use(async ({ layout }) => {
      const { root, identityFile: file } = layout;
      const known = await this.#uuidOf(layout);
      if (known !== null) return known;
      const uuid = randomUUID();
      const path = temporary(file);
      await this.#native.run('writeText', { path, text: formatPoolId(uuid) });
      await this.#native.run('renameFile', { from: path, to: file });
      await this.#native.run('flush', { path: root });
      return uuid;
    });
    return this.#uuid;
  }

  /**
   * FAILED_PRECONDITION if the pool's directories cannot be reached, are no longer those of the start, or
   * do not answer in time.
   */
  async check(): Promise<void> {
    await this.use(async () => undefined);
  }

  /**
   * Runs `work` on the pool's directories, which stay open meanwhile: mounts over the pool have no effect,
   * and a file that is not found does not exist. Throws as `check` does; errors of `work` name real paths.
   */
  async use<T>(work: (opened: OpenDirectories) => Promise<T>): Promise<T> {
    return this.#opening.use(
      (directories) => this.#answered(directories),
      async (opened) => {
        try {
          return await work(opened);
        } catch (thrown) {
          if (NO_DIRECTORY.has(errorCode(thrown))) await this.assertRetained(opened);
          throw opened.withRealPath(thrown);
        }
      },
    );
  }

  /**
   * As `use`, for one task that opens the directories itself, changes nothing, and says which directories they were. Null if
   * they are not those of the start, if the task fails, and while another one runs or `use` opens them: then `use` finds out
   * why. `use` does not wait for such a task, which may hang for something else than the pool: a disk that does not answer
   * holds two threads.
   */
  async useAtOnce<T extends { directories: readonly DirectoryIdentity[] }>(
    work: (directories: { root: string; names: string[] }) => Promise<T>,
  ): Promise<T | null> {
    if (this.#isAtOnce || this.#opening.isPending) return null;
    this.#isAtOnce = true;
    const { root, names } = this.#layout;
    const running = work({ root, names })
      .catch(() => null)
      .finally(() => {
        this.#isAtOnce = false;
      });
    const found = await this.#answered(running);
    return found !== null && isDeepStrictEqual(identitiesOf(found.directories), this.#identities) ? found : null;
  }

  #answered<T>(work: Promise<T>): Promise<T> {
    return withTimeout(work, OPEN_TIMEOUT_MS, (): never => {
      throw CsiError.failedPrecondition(
        `pool '${this.#options.pool}' in ${this.#layout.root} does not answer; check its disk and the kernel log`,
      );
    });
  }

  /** FAILED_PRECONDITION if the file with this st_dev is not in the pool's directory, but in a mount over it. */
  assertOwn(path: string, { device }: { device: bigint }): void {
    const { root, directories } = this.#layout;
    const position = [root, ...directories].indexOf(dirname(path));
    if (device === this.#identities[position]?.device) return;
    throw this.#unreachable(`something is mounted over ${path}; unmount it`);
  }

  /** FAILED_PRECONDITION if something else is in the place of the directory `lists` or `bases`. */
  assertRetained({ layout: { root } }: OpenDirectories): Promise<void> {
    return assertRetainedDirectories(this.#native, this.#options.pool, root, this.#layout.root);
  }

  /** The pool's size, and the free space that the storage below can really provide. */
  async space({ layout: { root } }: OpenDirectories): Promise<PoolSpace> {
    if (this.#usesEmbedded) return this.#embedded.space(root);
    return this.#native.run('spaceOf', { path: root });
  }

  /** Whether the pool grows on demand, before more of it is committed. */
  get grows(): boolean {
    return this.#usesEmbedded && this.#embedded.grows;
  }

  /** Grows the pool if needed (EmbeddedPool.ensureFree). One call at a time. */
  async ensureFree({ layout: { root } }: OpenDirectories, bytes: bigint, reservePercent: bigint): Promise<void> {
    await this.#embedded.ensureFree(root, bytes, reservePercent);
  }

  /** Whether ensureFree would have nothing to do. RESOURCE_EXHAUSTED as in ensureFree. */
  async hasFree({ layout: { root } }: OpenDirectories, bytes: bigint, reservePercent: bigint): Promise<boolean> {
    return (await this.#embedded.missingBytes(root, bytes, reservePercent)) <= 0n;
  }

  /** Records the present directories as those of the pool. */
  async #recordIdentities(): Promise<void> {
    const opened = await this.#open();
    try {
      await this.#assertNothingOver(opened);
      this.#identities = opened.identities;
    } finally {
      opened.close();
    }
  }

  async #openChecked(): Promise<OpenDirectories> {
    const opened = await this.#open();
    try {
      await this.#assertSame(opened);
      return opened;
    } catch (thrown) {
      opened.close();
      throw thrown;
    }
  }

  async #open(): Promise<OpenDirectories> {
    try {
      return await OpenDirectories.open(this.#native, this.#layout);
    } catch (thrown) {
      // The plugin is busy or stops, which says nothing about the pool.
      if (thrown instanceof CsiError) throw thrown;
      const code = errorCode(thrown) ?? 'unknown error';
      const path = (thrown as NodeJS.ErrnoException).path ?? this.#layout.root;
      throw this.#unreachable(
        `${basename(path)} in ${this.#layout.root}: ${code}; is its file system mounted?`,
        thrown,
      );
    }
  }

  async #assertNothingOver(opened: OpenDirectories): Promise<void> {
    const displaced = await opened.displaced();
    if (displaced === null) return;
    throw this.#unreachable(`something is mounted over ${displaced}; unmount it`);
  }

  async #assertSame(opened: OpenDirectories): Promise<void> {
    const found = opened.identities;
    // A mount over a directory has another identity, unless it is a bind of the directory itself.
    if (isDeepStrictEqual(found, this.#identities)) return;
    await this.#assertNothingOver(opened);
    const isSameRoot = isDeepStrictEqual(found[0], this.#identities[0]);
    const areSame = found.every(({ inode }, at) => inode === this.#identities[at]?.inode);
    // A file system that was mounted again may have other device numbers, its own or that of the subvolume; the pool's uuid
    // identifies it.
    if ((!isSameRoot || areSame) && this.#uuid !== null) {
      if ((await this.#uuidOf(opened.layout)) === this.#uuid) {
        this.#identities = found;
        return;
      }
    }
    throw this.#unreachable(
      `${this.#layout.root} is not the directory that the plugin started with: its file system was ` +
        'unmounted, or another one is mounted over it; mount the pool, or unmount what covers it',
    );
  }

  #unreachable(why: string, cause?: unknown): CsiError {
    return CsiError.failedPrecondition(`pool '${this.#options.pool}' cannot be reached: ${why}`, {
      cause,
    });
  }

  async #assertExists(): Promise<void> {
    const { pool, directory } = this.#options;
    if ((await this.#uuidOf(this.#layout)) !== null) return;
    if (await this.#embedded.exists()) return;
    throw CsiError.failedPrecondition(
      `pool '${pool}' is in the catalogue, but ${directory} holds no pool: ` +
        "is the pool's file system mounted, and the directory the right one?",
    );
  }

  /**
   * Whether the pool is an image: one exists, the operator means one, or FICLONE does not work in the directory.
   * FAILED_PRECONDITION if the operator means the other kind.
   */
  async #needsEmbedded(): Promise<boolean> {
    const { pool, directory, place = 'any' } = this.#options;
    const refused = (found: string, remedy: string): CsiError =>
      CsiError.failedPrecondition(
        `BLOCKDELTA_POOLS says ${pool}=${place}:${directory}, but the directory ${found}: ${remedy}`,
      );
    if (await this.#embedded.exists()) {
      if (place !== 'directory') return true;
      throw refused('holds an image, pool.img', `mount its disk, or write ${pool}=image:${directory}`);
    }
    if (place === 'image') {
      if ((await this.#uuidOf(this.#layout)) === null) return true;
      throw refused('holds a pool and no image', `write ${pool}=directory:${directory}`);
    }
    const { supported } = await this.#native.run('probeReflink', { directory });
    if (supported || place === 'any') return !supported;
    const remedy = `mount an XFS with reflink or a btrfs, or write ${pool}=image:${directory}`;
    throw refused('is on a file system that cannot clone files', remedy);
  }

  /** The pool's uuid; null if it has none yet. FAILED_PRECONDITION if the plugin does not know the pool's version. */
  async #uuidOf({ root, identityFile }: PoolLayout): Promise<string | null> {
    const text = await readIdentity(this.#native, identityFile);
    return text === null ? null : poolUuidIn(text, root);
  }
}
