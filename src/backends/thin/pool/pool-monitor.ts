/**
 * Looks after a pool while nobody asks: lets it grow in time, and tells loudly when it gets into trouble
 * or out of it.
 *
 * It asks every few seconds, without making the kernel commit. Events of device-mapper would hold a
 * thread each, and the marks they are raised at leave minutes.
 */
import { CsiError } from '../../../base/errors.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { OnEvent, PoolEvent } from '../../events.js';
import type { MetadataReader } from '../metadata/metadata-reader.js';
import { isMetadataShort, type PoolGrowth } from './pool-growth.js';
import { trouble } from './pool-health.js';
import type { ThinPool } from './thin-pool.js';

const INTERVAL_MS = 5000;

/** What is told of a pool when the trouble with it is over. */
const OVER = { pool: 'is well again', growth: 'can grow again' } as const;

type Subject = keyof typeof OVER;

export interface MonitorDependencies {
  pool: ThinPool;
  growth: PoolGrowth;
  metadata: Pick<MetadataReader, 'assertReadable'>;
  lowWaterPercent: bigint;
  onEvent: OnEvent;
  /** Whoever else judges what the pool says of itself. */
  onStatus(status: ThinPoolStatus): Promise<void>;
}

export class PoolMonitor {
  readonly #deps: MonitorDependencies;
  #timer: NodeJS.Timeout | null = null;
  #looking: Promise<void> = Promise.resolve();
  /** What was told last of each; told again only when it changes. */
  readonly #told = new Map<Subject, string | null>();

  constructor(deps: MonitorDependencies) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#looking = this.look().finally(() => {
        if (this.#timer !== null) this.start();
      });
    }, INTERVAL_MS).unref();
  }

  /** No look is under way when it resolves. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    await this.#looking;
  }

  /** Never rejects. */
  async look(): Promise<void> {
    const { pool, metadata, onStatus } = this.#deps;
    try {
      // Before it grows: a pool that could not be written is well then, and what it undid is forgotten.
      const status = await pool.status();
      await onStatus(status);
      // Also what is bad already: growth may wait for a change of the pool that waits for space.
      const before = this.#event(status);
      if (before?.level === 'error') this.#tell('pool', before);
      this.#tell('growth', await this.#grow());
      const event = this.#event(await pool.status());
      if (event === null) await metadata.assertReadable();
      this.#tell('pool', event);
    } catch (thrown) {
      const { message } = CsiError.from(thrown);
      this.#tell('pool', {
        level: 'error',
        message: `pool '${pool.pool}' cannot be looked after: ${message}`,
      });
    }
  }

  /** Null: it has grown, or need not. A pool that cannot grow serves on, and may have worse to tell. */
  async #grow(): Promise<PoolEvent | null> {
    const { pool, growth } = this.#deps;
    try {
      await growth.step();
      return null;
    } catch (thrown) {
      const { message } = CsiError.from(thrown);
      return { level: 'warn', message: `pool '${pool.pool}' cannot grow: ${message}` };
    }
  }

  /** Null: it is well. */
  #event(status: ThinPoolStatus): PoolEvent | null {
    const { pool, lowWaterPercent } = this.#deps;
    const found = trouble(status);
    if (found !== null) return { level: 'error', message: `pool '${pool.pool}' ${found}` };
    const { usedDataBlocks: used, totalDataBlocks: total } = status;
    // Full, and nobody has asked for more since the last commit: the next writer gets the error.
    if (status.mode === 'out_of_data_space' || used === total) {
      return {
        level: 'error',
        message: `pool '${pool.pool}' has no data space left; add space, or delete volumes and snapshots`,
      };
    }
    if (isMetadataShort(status)) {
      return {
        level: 'warn',
        message: `pool '${pool.pool}' has less than a quarter of its metadata left; enlarge its metadata device`,
      };
    }
    if ((total - used) * 100n > total * lowWaterPercent) return null;
    return {
      level: 'warn',
      message: `pool '${pool.pool}' has less than ${lowWaterPercent} % of its space left`,
    };
  }

  #tell(subject: Subject, event: PoolEvent | null): void {
    const told = event?.message ?? null;
    if (told === (this.#told.get(subject) ?? null)) return;
    this.#told.set(subject, told);
    const { onEvent, pool } = this.#deps;
    onEvent(event ?? { level: 'info', message: `pool '${pool.pool}' ${OVER[subject]}` });
  }
}
