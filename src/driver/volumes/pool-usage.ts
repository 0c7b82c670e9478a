/**
 * Logs one line when the used share of a pool rises to a threshold, one of USED_PERCENT, or the pool is full, and one line when
 * the share falls clearly below thresholds that it had reached. The second line names the lowest of these thresholds.
 *
 * A pool that hovers around a threshold is logged once: a threshold that was reached counts until the share is RETREAT percent
 * below it. The metadata of a thin pool is watched in the same way. Knows capacities, and nothing of what fills them.
 */

import type { Logger } from '../../base/logger.js';
import { Periodic } from '../../base/periodic.js';
import { SingleFlight } from '../../base/single-flight.js';
import { withTimeout } from '../../base/timeout.js';
import type { Backend, PoolCapacity } from '../backends/backend.js';
import { FULL_BYTES, USED_PERCENT } from '../backends/pool-levels.js';

const INTERVAL_MS = 60_000;
/** How long a check waits for a pool, and so the longest time that a start or a stop waits. */
const ANSWER_MS = 4000;
/** Percent of the total, ascending. */
const THRESHOLDS = Object.values(USED_PERCENT);
const FULL = 100n;
const RETREAT = 2n;
const SPACE_AGAIN_BYTES = 2n * FULL_BYTES;

type UsedBackend = Pick<Backend, 'pool' | 'capacity'>;

export interface PoolUsageOptions {
  pools(): readonly UsedBackend[];
  logger: Pick<Logger, 'info' | 'warn' | 'error'>;
  intervalMs?: number;
  /** How long a check waits for a pool. */
  answerMs?: number;
}

interface Usage {
  what: 'space' | 'metadata';
  totalBytes: bigint;
  freeBytes: bigint;
}

export class PoolUsageLog {
  /** The threshold that the space and the metadata of each pool have reached; 0 if none. */
  readonly #reached = new Map<string, bigint>();
  readonly #questions = new SingleFlight<UsedBackend, PoolCapacity>();
  readonly #checks: Periodic;

  constructor(private readonly options: PoolUsageOptions) {
    this.#checks = new Periodic(options.intervalMs ?? INTERVAL_MS, () => this.check());
  }

  /** Checks now, and again at intervals. Resolves after the first check. */
  async start(): Promise<void> {
    await this.check();
    this.#checks.start();
  }

  /** Resolves when no check runs any more. */
  async stop(): Promise<void> {
    await this.#checks.stop();
  }

  /**
   * Never rejects: other code reports a pool whose capacity is unknown. Waits ANSWER_MS for a pool whose disk is dead, and asks
   * that pool nothing more until the pool has answered.
   */
  async check(): Promise<void> {
    await Promise.all(this.options.pools().map((backend) => this.#checkOne(backend)));
  }

  async #checkOne(backend: UsedBackend): Promise<void> {
    const asked = this.#questions.run(backend, () => backend.capacity('recent'));
    const answerMs = this.options.answerMs ?? ANSWER_MS;
    const capacity = await withTimeout(asked, answerMs, () => null).catch(() => null);
    if (capacity === null) return;
    for (const usage of usagesOf(capacity)) this.#observe(backend.pool, usage);
  }

  #observe(pool: string, usage: Usage): void {
    const { what, totalBytes, freeBytes } = usage;
    if (totalBytes === 0n) return;
    const key = `${pool} ${what}`;
    const before = this.#reached.get(key) ?? 0n;
    const now = reachedNow(usage, before);
    this.#reached.set(key, now);
    if (now === before) return;
    const usedPercent = Number(percentOf(usage));
    const fields = { pool, what, usedPercent, totalBytes, freeBytes };
    const { logger } = this.options;
    if (now < before) {
      const left = THRESHOLDS.find((each) => each > now);
      const found = left === undefined ? `has ${what} again` : `is below ${left} % of its ${what} again`;
      logger.info(fields, `pool '${pool}' ${found}`);
    } else if (now === FULL) {
      logger.error(fields, `pool '${pool}' is out of ${what}: ${REMEDY[what]}`);
    } else {
      logger.warn(fields, `pool '${pool}' has used ${now} % of its ${what}: ${REMEDY[what]}`);
    }
  }
}

const REMEDY = {
  space: 'add space, or delete volumes and snapshots',
  metadata: 'enlarge the metadata device, or delete volumes and snapshots',
} as const;

function usagesOf({ totalBytes, freeBytes, metadata }: PoolCapacity): Usage[] {
  const space: Usage = { what: 'space', totalBytes, freeBytes };
  if (metadata === undefined) return [space];
  const { totalBytes: total, usedBytes: used } = metadata;
  return [space, { what: 'metadata', totalBytes: total, freeBytes: total - used }];
}

/** The highest threshold that counts now, given the threshold that counted before. */
function reachedNow(usage: Usage, before: bigint): bigint {
  const used = percentOf(usage);
  const needed = before === FULL ? SPACE_AGAIN_BYTES : FULL_BYTES;
  if (usage.freeBytes <= 0n || (usage.what === 'space' && usage.freeBytes < needed)) return FULL;
  const holds = (level: bigint): boolean => used >= (level <= before ? level - RETREAT : level);
  return THRESHOLDS.filter(holds).at(-1) ?? 0n;
}

const percentOf = ({ totalBytes, freeBytes }: Usage): bigint =>
  ((totalBytes - (freeBytes < 0n ? 0n : freeBytes)) * 100n) / totalBytes;
