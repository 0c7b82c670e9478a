/**
 * The directory a reflink pool lives in: found or made usable, claimed for one catalogue, watched.
 *
 *   <directory>/pool-owner   uuid of the catalogue that serves the pool
 *   <directory>/pool.img     only with an embedded pool; see embedded-pool.ts
 *   <root>/pool-id           the pool's own uuid; root is the directory or where the image is mounted
 *
 * Every operation opens the directories, sees that they are those of the start, and works through these
 * descriptors: nothing that is mounted over the pool takes what is meant for it.
 *
 * Knows where volumes and snapshots lie, and nothing about them.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { CsiError, errorCode } from '../../base/errors.js';
import { SingleFlight } from '../../base/single-flight.js';
import { withTimeout } from '../../base/timeout.js';
import type { NativeRunner } from '../../native/pool.js';
import type { PoolSpace } from '../pool-account.js';
import { claimDirectory, type PoolClaim, readOrNull } from '../pool-claim.js';
import { EmbeddedPool, type EmbeddedPoolOptions } from './embedded-pool.js';
import { type DirectoryIdentity, HeldDirectories } from './held-directories.js';
import { PoolLayout, temporary } from './pool-layout.js';
import { poolUsage } from './pool-space.js';

export interface ReflinkPoolOptions extends PoolClaim, EmbeddedPoolOptions {}

/** A directory on a dead disk never answers; a check must not pile up waiting for it. */
const CHECK_TIMEOUT_MS = 5000;

export class PoolDirectory {
  readonly #native: NativeRunner;
  readonly #options: ReflinkPoolOptions;
  readonly #embedded: EmbeddedPool;
  #layout: PoolLayout;
  #usesEmbedded = false;
  /** Of the pool's directories, as HeldDirectories lists them; empty before the start. */
  #known: DirectoryIdentity[] = [];
  #uuid: string | null = null;
  readonly #checks = new SingleFlight<'pool', void>();

  constructor(native: NativeRunner, options: ReflinkPoolOptions) {
    this.#native = native;
    this.#options = options;
    this.#embedded = new EmbeddedPool(native, options);
    this.#layout = new PoolLayout(options.directory);
  }

  get layout(): PoolLayout {
    return this.#layout;
  }

  async start(expected: 'any' | 'existing'): Promise<void> {
    const { directory } = this.#options;
    if (expected === 'existing') await this.#assertExists();
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await claimDirectory(this.#native, this.#options);
    if (await this.#needsEmbedded()) {
      // From here on stop() has something to let go of.
      this.#usesEmbedded = true;
      await this.#embedded.start();
      this.#layout = new PoolLayout(this.#embedded.mountPoint);
    }
    for (const path of this.#layout.directories) {
      await mkdir(path, { recursive: true, mode: 0o700 });
    }
    await this.#native.run('flush', { path: this.#layout.root });
    await this.#remember();
    // Devices that an earlier release has attached may be in use.
    await this.#native.run('endUnsafeDirectIo', { directory: this.#layout.volumes });
  }

  async stop(): Promise<void> {
    if (this.#usesEmbedded) await this.#embedded.stop();
  }

  async identity(): Promise<string> {
    this.#uuid = await this.use(async ({ layout: { root, identityFile: file } }) => {
      const known = await readOrNull(file);
      if (known !== null) return known;
      const uuid = randomUUID();
      await writeFile(temporary(file), `${uuid}\n`, { mode: 0o600, flush: true });
      await rename(temporary(file), file);
      await this.#native.run('flush', { path: root });
      return uuid;
    });
    return this.#uuid;
  }

  /**
   * FAILED_PRECONDITION if the pool's directories cannot be reached, are not the pool's any more, or do
   * not answer in time.
   */
  check(): Promise<void> {
    const checked = this.#checks.run('pool', () => this.#look());
    return withTimeout(checked, CHECK_TIMEOUT_MS, (): never => {
      throw CsiError.failedPrecondition(
        `pool '${this.#options.pool}' in ${this.#layout.root} does not answer; check its disk and the kernel log`,
      );
    });
  }

  /**
   * Runs `work` on the pool's directories, held for so long. Whatever is mounted over the pool meanwhile
   * changes nothing, and a file that is missing there is missing. Throws as `check` does; errors of `work`
   * name real paths.
   */
  async use<T>(work: (held: HeldDirectories) => Promise<T>): Promise<T> {
    // First, because it is never asked twice at once.
    await this.check();
    const held = await this.#hold();
    try {
      return await work(held);
    } catch (thrown) {
      throw held.named(thrown);
    } finally {
      await held.close();
    }
  }

  /** Of a file in the pool. FAILED_PRECONDITION if it is not the pool's own, but something mounted there. */
  assertOwn(path: string, { device }: { device: bigint }): void {
    if (device === this.#known[0]?.device) return;
    throw this.#unreachable(`something is mounted over ${path}; unmount it`);
  }

  /** The pool's size, and what the storage below can really still give. */
  async space({ layout: { root } }: HeldDirectories): Promise<PoolSpace> {
    return this.#usesEmbedded ? this.#embedded.space(root) : poolUsage(root);
  }

  /** Whether the pool has to grow before it promises more; any other has the room that it has. */
  get grows(): boolean {
    return this.#usesEmbedded && this.#embedded.grows;
  }

  /** Makes room in a pool that grows (EmbeddedPool.holdFree). One call at a time. */
  async holdFree(
    { layout: { root } }: HeldDirectories,
    bytes: bigint,
    reservePercent: bigint,
  ): Promise<void> {
    await this.#embedded.holdFree(root, bytes, reservePercent);
  }

  async #look(): Promise<void> {
    await (await this.#hold()).close();
  }

  /** Takes the directories of this moment for the pool's. */
  async #remember(): Promise<void> {
    const held = await this.#open();
    this.#known = held.identities;
    await held.close();
  }

  async #hold(): Promise<HeldDirectories> {
    const held = await this.#open();
    try {
      await this.#assertSame(held);
      return held;
    } catch (thrown) {
      await held.close();
      throw thrown;
    }
  }

  async #open(): Promise<HeldDirectories> {
    let held: HeldDirectories;
    try {
      held = await HeldDirectories.open(this.#layout);
    } catch (thrown) {
      const code = errorCode(thrown) ?? 'unknown error';
      const path = (thrown as NodeJS.ErrnoException).path ?? this.#layout.root;
      throw this.#unreachable(
        `${basename(path)} in ${this.#layout.root}: ${code}; is its file system mounted?`,
        thrown,
      );
    }
    const { strayed } = held;
    if (strayed === null) return held;
    await held.close();
    throw this.#unreachable(
      `${strayed} lies on another file system than ${this.#layout.root}; unmount what is mounted there`,
    );
  }

  async #assertSame(held: HeldDirectories): Promise<void> {
    const found = held.identities;
    if (isDeepStrictEqual(found, this.#known)) return;
    const isSameRoot = isDeepStrictEqual(found[0], this.#known[0]);
    // Mounted again, a file system may have another device number: what lies in it says which it is.
    if (!isSameRoot && this.#uuid !== null) {
      if ((await readOrNull(held.layout.identityFile)) === this.#uuid) {
        this.#known = found;
        return;
      }
    }
    throw this.#unreachable(
      `${this.#layout.root} is not what it was: its file system is unmounted, or something else is ` +
        'mounted over it or its directories; mount the pool, unmount what covers it',
    );
  }

  #unreachable(why: string, cause?: unknown): CsiError {
    return CsiError.failedPrecondition(`pool '${this.#options.pool}' cannot be reached: ${why}`, {
      cause,
    });
  }

  async #assertExists(): Promise<void> {
    const { pool, directory } = this.#options;
    if ((await readOrNull(this.#layout.identityFile)) !== null) return;
    if (await this.#embedded.exists()) return;
    throw CsiError.failedPrecondition(
      `pool '${pool}' is known to the catalogue, and ${directory} holds no pool: ` +
        "is the pool's file system mounted, and the directory the right one?",
    );
  }

  /** An image is needed where cloning does not work, and kept wherever there is one already. */
  async #needsEmbedded(): Promise<boolean> {
    if (await this.#embedded.exists()) return true;
    const { directory } = this.#options;
    const { supported } = await this.#native.run('probeReflink', { directory });
    return !supported;
  }
}
