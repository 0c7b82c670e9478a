/**
 * Watches a running pool: grows it in time, and logs when it gets into trouble and when it has recovered.
 *
 * Polls every few seconds without forcing a commit. Waiting for device-mapper events would occupy a thread
 * per pool, and the thresholds that raise them leave minutes to react.
 */
import { messageOf } from '../../../../base/errors.js';
import { Periodic } from '../../../../base/periodic.js';
import type { ThinPoolStatus } from '../../../native/dm-addon.js';
import type { OnEvent, PoolEvent } from '../../backend.js';
import type { MetadataReader } from '../metadata/metadata-reader.js';
import { isMetadataShort, type PoolGrowth } from './pool-growth.js';
import { whyUnwritable } from './pool-health.js';
import type { ThinPool } from './thin-pool.js';

const INTERVAL_MS = 5000;

/** Logged when a problem is over. */
const RECOVERED = { pool: 'has recovered', growth: 'can grow again' } as const;

type Subject = keyof typeof RECOVERED;

export interface MonitorDependencies {
  pool: ThinPool;
  growth: PoolGrowth;
  metadata: Pick<MetadataReader, 'assertReadable'>;
  lowWaterPercent: bigint;
  onEvent: OnEvent;
  /** Called with every status that was read. */
  onStatus(status: ThinPoolStatus): Promise<void>;
}

export class PoolMonitor extends Periodic {
  /** The last message of each subject: a message is logged again only after a change. */
  readonly #reported = new Map<Subject, string | null>();

  constructor(private readonly deps: MonitorDependencies) {
    super(INTERVAL_MS, () => this.probe());
  }

  /** Never rejects. */
  async probe(): Promise<void> {
    const { pool, metadata, onStatus } = this.deps;
    try {
      // Read before the pool grows: growth repairs a pool with full metadata, and hides that the pool rolled back.
      const status = await pool.status();
      await onStatus(status);
      // Reported before the pool grows: growth may wait behind a change of the pool that is waiting for space.
      const before = this.#event(status);
      if (before?.level === 'error') this.#report('pool', before);
      this.#report('growth', await this.#grow());
      const event = this.#event(await pool.status());
      if (event === null) await metadata.assertReadable();
      this.#report('pool', event);
    } catch (thrown) {
      this.#report('pool', {
        level: 'error',
        message: `pool '${pool.pool}' cannot be monitored: ${messageOf(thrown)}`,
      });
    }
  }

  /** Null if the pool has grown, or need not grow. A pool that cannot grow continues to serve, so this is a warning. */
  #grow(): Promise<PoolEvent | null> {
    const { pool, growth } = this.deps;
    const message = (thrown: unknown) => `pool '${pool.pool}' cannot grow: ${messageOf(thrown)}`;
    const warning = (thrown: unknown): PoolEvent => ({ level: 'warn', message: message(thrown) });
    return growth.step().then(() => null, warning);
  }

  /** Null if nothing is wrong. */
  #event(status: ThinPoolStatus): PoolEvent | null {
    const { pool, lowWaterPercent } = this.deps;
    const found = whyUnwritable(status);
    if (found !== null) return { level: 'error', message: `pool '${pool.pool}' ${found}` };
    const { usedDataBlocks: used, totalDataBlocks: total } = status;
    // If used === total, the pool is full, although no write has failed yet; the next write will.
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

  #report(subject: Subject, event: PoolEvent | null): void {
    const message = event?.message ?? null;
    if (message === (this.#reported.get(subject) ?? null)) return;
    this.#reported.set(subject, message);
    const { onEvent, pool } = this.deps;
    onEvent(event ?? { level: 'info', message: `pool '${pool.pool}' ${RECOVERED[subject]}` });
  }
}
