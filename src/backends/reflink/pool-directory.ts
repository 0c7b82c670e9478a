/**
 * The directory a reflink pool lives in: found or made usable, claimed for one catalogue, watched.
 *
 *   <directory>/pool-owner   uuid of the catalogue that serves the pool
 *   <directory>/pool.img     only with an embedded pool; see embedded-pool.ts
 *   <root>/pool-id           the pool's own uuid; root is the directory or where the image is mounted
 *
 * Knows where volumes and snapshots lie, and nothing about them.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rename, stat, statfs, writeFile } from 'node:fs/promises';
import { CsiError, errorCode } from '../../errors.js';
import type { NativeRunner } from '../../native/pool.js';
import { PatientQuestion } from '../patience.js';
import { claimDirectory, type PoolClaim, readOrNull } from '../pool-claim.js';
import { EmbeddedPool } from './embedded-pool.js';
import { PoolLayout, temporary } from './pool-layout.js';

export interface ReflinkPoolOptions extends PoolClaim {
  /** Upper bound for the image of an embedded pool; null: what the host can hold. */
  embeddedPoolBytes: bigint | null;
}

/** A directory on a dead disk never answers; a check must not pile up waiting for it. */
const CHECK_TIMEOUT_MS = 5000;

export class PoolDirectory {
  readonly #native: NativeRunner;
  readonly #options: ReflinkPoolOptions;
  readonly #embedded: EmbeddedPool;
  #layout: PoolLayout;
  #usesEmbedded = false;
  readonly #reached: PatientQuestion<void>;

  constructor(native: NativeRunner, options: ReflinkPoolOptions) {
    this.#native = native;
    this.#options = options;
    this.#embedded = new EmbeddedPool(native, options.directory, options.embeddedPoolBytes);
    this.#layout = new PoolLayout(options.directory);
    this.#reached = new PatientQuestion(
      () => this.#look(),
      CHECK_TIMEOUT_MS,
      () =>
        CsiError.failedPrecondition(
          `pool '${options.pool}' in ${this.#layout.root} does not answer; look at its disk`,
        ),
    );
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
    // Devices that an earlier release has attached may be in use.
    await this.#native.run('endUnsafeDirectIo', { directory: this.#layout.volumes });
  }

  async stop(): Promise<void> {
    if (this.#usesEmbedded) await this.#embedded.stop();
  }

  async identity(): Promise<string> {
    const file = this.#layout.identityFile;
    const known = await readOrNull(file);
    if (known !== null) return known;
    const uuid = randomUUID();
    await writeFile(temporary(file), `${uuid}\n`, { mode: 0o600, flush: true });
    await rename(temporary(file), file);
    await this.#native.run('flush', { path: this.#layout.root });
    return uuid;
  }

  /** FAILED_PRECONDITION if the pool's directories cannot be reached, or do not answer in time. */
  check(): Promise<void> {
    return this.#reached.answer();
  }

  /** The pool's size, and what the storage below can really still give. */
  async space(): Promise<{ totalBytes: bigint; freeBytes: bigint }> {
    const pool = await statfs(this.#layout.root, { bigint: true });
    const poolFree = pool.bavail * pool.bsize;
    const totalBytes = pool.blocks * pool.bsize;
    if (!this.#usesEmbedded) return { totalBytes, freeBytes: poolFree };
    const hostFree = await this.#embedded.hostFreeBytes();
    return { totalBytes, freeBytes: hostFree < poolFree ? hostFree : poolFree };
  }

  async #look(): Promise<void> {
    for (const directory of this.#layout.directories) {
      try {
        await stat(directory);
      } catch (thrown) {
        throw CsiError.failedPrecondition(
          `pool '${this.#options.pool}' cannot be reached: ${directory}: ${errorCode(thrown) ?? 'unknown error'}`,
          { cause: thrown },
        );
      }
    }
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
