/**
 * Applies the limits of retained bases to whole pools in the background, so that the cost of a deletion does not depend
 * on how many bases there are: a pool may exceed its limit of bytes for one interval.
 */
import { CsiError } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import type { Backend } from '../backends/backend.js';
import type { RetainedBases } from './retained-bases.js';

const INTERVAL_MS = 60_000;

export interface RetentionTimerOptions {
  /** The pools that are served now. */
  pools(): readonly Backend[];
  retainedBases: Pick<RetainedBases, 'settleIfDue'>;
  logger: Pick<Logger, 'warn'>;
  intervalMs?: number;
}

export class RetentionTimer {
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(private readonly options: RetentionTimerOptions) {}

  start(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#running = this.#settleAll().finally(() => this.start());
    }, this.options.intervalMs ?? INTERVAL_MS).unref();
  }

  /** Resolves when nothing is being settled. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #settleAll(): Promise<void> {
    const { pools, retainedBases, logger } = this.options;
    for (const backend of pools()) {
      if (this.#isStopped) return;
      try {
        await retainedBases.settleIfDue(backend);
      } catch (thrown) {
        const err = CsiError.from(thrown);
        logger.warn({ pool: backend.pool, err }, 'could not apply the limits of retained bases');
      }
    }
  }
}
