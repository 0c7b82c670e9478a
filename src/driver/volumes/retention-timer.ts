/**
 * Applies the limits of retained bases to whole pools in the background, so that the cost of a deletion does not depend on the
 * number of bases. A pool may therefore exceed its limit of bytes for one interval.
 */
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import type { Backend } from '../backends/backend.js';
import type { RetainedBases } from './retained-bases.js';

const INTERVAL_MS = 60_000;

export interface RetentionTimerOptions {
  pools(): readonly Backend[];
  retainedBases: Pick<RetainedBases, 'reviewIfDue'>;
  logger: Pick<Logger, 'warn'>;
  intervalMs?: number;
}

export class RetentionTimer extends Periodic {
  constructor(private readonly options: RetentionTimerOptions) {
    super(options.intervalMs ?? INTERVAL_MS, () => this.#reviewAll());
  }

  async #reviewAll(): Promise<void> {
    const { pools, retainedBases, logger } = this.options;
    for (const backend of pools()) {
      if (this.isStopped) return;
      try {
        await retainedBases.reviewIfDue(backend);
      } catch (thrown) {
        const err = CsiError.from(thrown);
        logger.warn({ pool: backend.pool, err }, 'could not apply the limits of retained bases');
      }
    }
  }
}
