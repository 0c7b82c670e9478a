/**
 * Promises space of a pool to volumes, one promise at a time: a pool that grows does so before the promise.
 * Such a pool also grows as it fills up, while the host has room.
 *
 * A volume's promise counts by its file once that is there; until then it is kept here.
 */
import { readdir } from 'node:fs/promises';
import { SerialQueue } from '../../base/serial-queue.js';
import type { SpacePolicy } from '../pool-account.js';
import type { HeldDirectories } from './held-directories.js';
import type { PoolDirectory } from './pool-directory.js';
import { poolUsage, promisedBytes, volumeBytes } from './pool-space.js';

/**
 * What a pool has free beside its reserve while volumes rewrite blocks that snapshots hold as well: more
 * than they write between two looks.
 */
const REWRITE_BYTES = 1n << 30n;
const LOOK_AFTER_MS = 1000;
/** When the host had no room for it, or the pool could not be asked. */
const LOOK_AGAIN_AFTER_MS = 30_000;

export class SpacePromises {
  /** Of volumes whose files are being made or grown. */
  #pending = 0n;
  readonly #queue: SerialQueue;
  #look: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(
    private readonly directory: PoolDirectory,
    private readonly policy: SpacePolicy,
  ) {
    this.#queue = new SerialQueue(`the space of ${directory.layout.root}`);
  }

  /** After the pool's start. */
  start(): void {
    this.#isStopped = false;
    if (this.directory.grows) this.#lookIn(LOOK_AFTER_MS);
  }

  /** Resolves when nothing holds the pool any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#look);
    await this.#queue.idle();
  }

  /** Runs `make`, which gives that much to a volume, when the pool can keep it. RESOURCE_EXHAUSTED if it cannot. */
  async run<T>(bytes: bigint, make: () => Promise<T>): Promise<T> {
    if (!this.directory.grows) return make();
    await this.#queue.run(() => this.#promise(bytes));
    try {
      return await make();
    } finally {
      this.#pending -= bytes;
    }
  }

  /**
   * Makes room for what volumes rewrite, before a snapshot shares what they have written. Nothing of that
   * is promised: where there is no room, the pool stays as it is, and whoever works with it is told what
   * is wrong with it.
   */
  async makeRoomToRewrite(): Promise<void> {
    await this.#attempt((held) => this.#holdRoomToRewrite(held));
  }

  async #promise(bytes: bigint): Promise<void> {
    const { overcommitPercent, reservePercent } = this.policy;
    await this.directory.use(async (held) => {
      const promised = (await promisedBytes(held.layout)) + this.#pending + bytes;
      await this.directory.holdFree(held, (promised * 100n) / overcommitPercent, reservePercent);
    });
    this.#pending += bytes;
  }

  async #holdRoomToRewrite(held: HeldDirectories): Promise<void> {
    const { overcommitPercent, reservePercent } = this.policy;
    const { written, unwritten } = await volumeBytes(held.layout);
    const promised = ((unwritten + this.#pending) * 100n) / overcommitPercent;
    const rewritten = written < REWRITE_BYTES ? written : REWRITE_BYTES;
    await this.directory.holdFree(held, promised + rewritten, reservePercent);
  }

  #lookIn(delayMs: number): void {
    clearTimeout(this.#look);
    this.#look = setTimeout(async () => {
      const hasRoom = await this.#attempt(async (held) => {
        if (await this.#isShort(held)) await this.#holdRoomToRewrite(held);
      });
      if (!this.#isStopped) this.#lookIn(hasRoom ? LOOK_AFTER_MS : LOOK_AGAIN_AFTER_MS);
    }, delayMs);
    this.#look.unref();
  }

  /** Whether little is free, and volumes share blocks: with each other, all have more than is used. */
  async #isShort({ layout }: HeldDirectories): Promise<boolean> {
    const { totalBytes, freeBytes } = await poolUsage(layout.root);
    const reserve = (totalBytes * this.policy.reservePercent) / 100n;
    if (freeBytes >= reserve + REWRITE_BYTES) return false;
    if ((await readdir(layout.snapshots)).length > 0) return true;
    return (await volumeBytes(layout)).written > totalBytes - freeBytes;
  }

  /** Returns false if there is no room, or the pool cannot be asked. */
  async #attempt(work: (held: HeldDirectories) => Promise<void>): Promise<boolean> {
    if (!this.directory.grows || this.#isStopped) return true;
    try {
      await this.#queue.run(() => this.directory.use(work));
      return true;
    } catch {
      return false;
    }
  }
}
