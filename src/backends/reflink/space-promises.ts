/**
 * Promises space of a pool to volumes, one promise at a time: an embedded pool grows before the promise.
 *
 * A volume's promise counts by its file once that is there; until then it is kept here.
 */
import type { SpacePolicy } from '../pool-account.js';
import type { PoolDirectory } from './pool-directory.js';
import { promisedBytes } from './pool-space.js';

export class SpacePromises {
  /** Of volumes whose files are being made or grown. */
  #pending = 0n;
  #idle: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly directory: PoolDirectory,
    private readonly policy: SpacePolicy,
  ) {}

  /** Runs `make`, which gives that much to a volume, when the pool can keep it. RESOURCE_EXHAUSTED if it cannot. */
  async run<T>(bytes: bigint, make: () => Promise<T>): Promise<T> {
    await this.#alone(() => this.#promise(bytes));
    try {
      return await make();
    } finally {
      this.#pending -= bytes;
    }
  }

  async #promise(bytes: bigint): Promise<void> {
    const { overcommitPercent, reservePercent } = this.policy;
    await this.directory.use(async (held) => {
      const promised = (await promisedBytes(held.layout)) + this.#pending + bytes;
      await this.directory.holdFree(held, (promised * 100n) / overcommitPercent, reservePercent);
    });
    this.#pending += bytes;
  }

  async #alone(work: () => Promise<void>): Promise<void> {
    const done = this.#idle.then(work);
    this.#idle = done.catch(() => undefined);
    return done;
  }
}
