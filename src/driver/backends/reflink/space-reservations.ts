/**
 * Reserves space in a pool before a volume's file is created or grown, one reservation at a time. A pool
 * image that is allocated in full grows first, and also grows as it fills up and for replicas, while the host has room.
 *
 * A reservation lasts until the file exists: from then on the file's size counts. This class looks at the volumes only if
 * kept figures do not show that there is room.
 */
import { Periodic } from '../../../base/periodic.js';
import { SerialQueue } from '../../serial-queue.js';
import { namesIn } from '../directory-files.js';
import type { SpacePolicy } from '../pool-account.js';
import type { CommittedSpace } from './committed-space.js';
import type { OpenDirectories } from './open-directories.js';
import type { PoolDirectory } from './pool-directory.js';

/**
 * Free space beyond the reserve that lets volumes rewrite blocks they share with snapshots: more than
 * they write between two probes.
 */
const REWRITE_BYTES = 1n << 30n;
const PROBE_INTERVAL_MS = 1000;
/** Delay after the host had no room, or the pool could not be reached. */
const RETRY_INTERVAL_MS = 30_000;

export class SpaceReservations {
  readonly #queue = new SerialQueue();
  readonly #probes = new Periodic(PROBE_INTERVAL_MS, () => this.#probe());

  constructor(
    private readonly committed: CommittedSpace,
    private readonly directory: PoolDirectory,
    private readonly policy: SpacePolicy,
  ) {}

  /** Call after the pool has started. */
  start(): void {
    if (this.directory.grows) this.#probes.start();
  }

  /** Resolves when no work on the pool is under way here. start() may follow. */
  async pause(): Promise<void> {
    await this.#probes.pause();
    await this.#queue.idle();
  }

  /**
   * Reserves `bytes`, then runs `make`, which creates or grows a volume's file by that much.
   * RESOURCE_EXHAUSTED if the pool cannot provide them.
   */
  async run<T>(bytes: bigint, make: () => Promise<T>): Promise<T> {
    if (this.directory.grows) await this.#queue.run(() => this.#reserve(bytes));
    else this.committed.addingStarts(bytes);
    try {
      return await make();
    } finally {
      this.committed.addingEnds(bytes);
    }
  }

  /**
   * Grows the pool for what volumes will rewrite, before a snapshot shares their blocks. Best effort: this
   * space is not committed to anybody, and the operation that follows reports what is wrong with the pool.
   */
  async makeRoomToRewrite(): Promise<void> {
    await this.#attempt((opened) => this.#ensureRoomToRewrite(opened));
  }

  /** Grows the pool until so many bytes are free beside what volumes may claim. RESOURCE_EXHAUSTED as in `run`. */
  async makeRoom(bytes: bigint): Promise<void> {
    if (this.directory.grows) await this.#queue.run(() => this.#growFor(0n, bytes));
  }

  async #reserve(bytes: bigint): Promise<void> {
    await this.#growFor(bytes, 0n);
    this.committed.addingStarts(bytes);
  }

  async #growFor(committedBytes: bigint, moreBytes: bigint): Promise<void> {
    await this.directory.use(async (opened) => {
      const { layout } = opened;
      if (await this.#hasFree(opened, (await this.committed.atMost(layout)) + committedBytes, moreBytes)) return;
      const { unwritten } = await this.committed.now(layout);
      await this.#ensureFree(opened, unwritten + this.committed.pendingBytes + committedBytes, moreBytes);
    });
  }

  async #ensureRoomToRewrite(opened: OpenDirectories): Promise<void> {
    const { layout } = opened;
    if (await this.#hasFree(opened, await this.committed.atMost(layout), REWRITE_BYTES)) return;
    const { written, unwritten } = await this.committed.now(layout);
    const rewritten = written < REWRITE_BYTES ? written : REWRITE_BYTES;
    await this.#ensureFree(opened, unwritten + this.committed.pendingBytes, rewritten);
  }

  #hasFree(opened: OpenDirectories, committedBytes: bigint, moreBytes: bigint): Promise<boolean> {
    const bytes = this.#needed(committedBytes) + moreBytes;
    return this.directory.hasFree(opened, bytes, this.policy.reservePercent);
  }

  #ensureFree(opened: OpenDirectories, committedBytes: bigint, moreBytes: bigint): Promise<void> {
    const bytes = this.#needed(committedBytes) + moreBytes;
    return this.directory.ensureFree(opened, bytes, this.policy.reservePercent);
  }

  #needed(committedBytes: bigint): bigint {
    return (committedBytes * 100n) / this.policy.overcommitPercent;
  }

  /** Milliseconds until the next probe. */
  async #probe(): Promise<number> {
    const hasRoom = await this.#attempt(async (opened) => {
      if (await this.#isShort(opened)) await this.#ensureRoomToRewrite(opened);
    });
    return hasRoom ? PROBE_INTERVAL_MS : RETRY_INTERVAL_MS;
  }

  /**
   * Whether little space is free and blocks are shared. Volumes share blocks with each other if together they have written
   * more than the pool uses.
   */
  async #isShort({ native, layout }: OpenDirectories): Promise<boolean> {
    const { totalBytes, freeBytes } = await native.run('spaceOf', { path: layout.root });
    const reserve = (totalBytes * this.policy.reservePercent) / 100n;
    if (freeBytes >= reserve + REWRITE_BYTES) return false;
    if ((await namesIn(native, layout.snapshots)).length > 0) return true;
    const { written } = await this.committed.now(layout);
    // Probed after the volumes, so that blocks written meanwhile do not look shared.
    const after = await native.run('spaceOf', { path: layout.root });
    return written > after.totalBytes - after.freeBytes;
  }

  /** False if there is no room, or the pool cannot be reached. */
  async #attempt(work: (opened: OpenDirectories) => Promise<void>): Promise<boolean> {
    if (!this.directory.grows || this.#probes.isStopped) return true;
    const attempt = this.#queue.run(() => this.directory.use(work));
    return attempt.then(
      () => true,
      () => false,
    );
  }
}
