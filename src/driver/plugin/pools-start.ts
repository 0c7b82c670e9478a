/**
 * Builds and starts the pools of this node from the settings: the only place that knows which backend
 * serves which kind of pool.
 */

import { bestEffort, logLeftover } from '../../base/best-effort.js';
import { CsiError, messageOf } from '../../base/errors.js';
import type { Logger } from '../../base/logger.js';
import { withTimeout } from '../../base/timeout.js';
import type { Backend, PoolEvent } from '../backends/backend.js';
import { namingFullPool } from '../backends/full-pool.js';
import { ReflinkBackend } from '../backends/reflink/reflink-backend.js';
import { BackendRegistry, type ConfiguredPool } from '../backends/registry.js';
import { PoolDamaged } from '../backends/retained/retained-directories.js';
import { ThinBackend } from '../backends/thin/thin-backend.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { Config } from '../config/config.js';
import type { PoolConfig } from '../config/pools.js';
import type { PluginMetrics } from '../metrics/plugin-metrics.js';
import type { NativeRunner } from '../native/pool.js';
import { claimPool, type SweptNames } from '../volumes/reconcile.js';
import { halfStarted } from './pool-recovery.js';
import type { Teardown } from './teardown.js';

interface StartDependencies {
  catalogue: AsyncCatalogue;
  /** The runner for calls for the pool. */
  runnerOf(pool: string): NativeRunner;
  logger: Logger;
  metrics?: PluginMetrics | null;
}

/** How long the pools that have started wait for those that have not. */
const PATIENCE_MS = 30_000;

/** The pools after the first attempt at each, and the means for further attempts. */
export interface StartedPools {
  registry: BackendRegistry;
  /**
   * Starts and claims a pool that could not be started, or waits for an attempt that has not ended. Rejects with the
   * failure to register, after it has stopped the backend as far as possible. Do not call this for a started pool.
   */
  startAgain(pool: string): Promise<Backend>;
}

/**
 * A pool that cannot be started is registered with its failure: a disk that is missing, or does not answer, must not
 * make the volumes of other pools unavailable. Throws if no pool can be started, unless the first one is PoolDamaged.
 *
 * @param teardown gets the steps that stop the pools
 */
export async function startBackends(
  config: Config,
  dependencies: StartDependencies,
  teardown: Teardown,
): Promise<StartedPools & { swept: SweptNames }> {
  const { logger } = dependencies;
  const swept = new Map<string, readonly string[]>();
  const owner = await dependencies.catalogue.uuid();
  const starters = new Map(
    config.pools.map((pool) => [pool.name, poolStarter({ ...dependencies, config, owner, swept }, pool, teardown)]),
  );
  const { registry, startAgain } = await startAll(starters);
  const [first] = registry.unavailable;
  const cause = first?.failure.cause;
  if (first !== undefined && registry.all.length === 0 && !(cause instanceof PoolDamaged)) throw cause ?? first.failure;
  for (const { pool, failure } of registry.unavailable) {
    logger.error({ pool, err: failure }, 'the pool could not be started and is not served');
  }
  return { registry, startAgain, swept };
}

/** Starts all pools at once. Waits until one has started or all have failed, and then up to `patienceMs` for the rest. */
export async function startAll(
  starters: ReadonlyMap<string, () => Promise<Backend>>,
  patienceMs = PATIENCE_MS,
): Promise<StartedPools> {
  const pending = new Map([...starters].map(([pool, start]) => [pool, start()]));
  const outcomes = new Map<string, ConfiguredPool>();
  const ends = [...pending].map(async ([pool, attempt]) => {
    const failing = (thrown: unknown) => ({ pool, failure: CsiError.from(thrown) });
    outcomes.set(pool, await attempt.catch(failing));
  });
  await Promise.any(pending.values()).catch(() => undefined);
  await withTimeout(Promise.all(ends), patienceMs, () => undefined);
  for (const pool of outcomes.keys()) pending.delete(pool);
  const pools = [...starters.keys()].map(
    (pool) => outcomes.get(pool) ?? { pool, failure: notAnswering(pool, patienceMs) },
  );
  return {
    registry: new BackendRegistry(pools),
    startAgain: (pool) => {
      const start = starters.get(pool);
      if (start === undefined) throw new Error(`pool '${pool}' is not configured`);
      const first = pending.get(pool);
      pending.delete(pool);
      return first ?? start();
    },
  };
}

/** Each attempt has a backend of its own, so that it finds no state of the attempt before. */
function poolStarter(
  { config, owner, swept, catalogue, runnerOf, logger, metrics = null }: StarterDependencies,
  pool: PoolConfig,
  teardown: Teardown,
): () => Promise<Backend> {
  let current: Backend | null = null;
  teardown.add(async () => current?.stop());
  return async () => {
    const parts = { config, native: runnerOf(pool.name), owner, logger, metrics };
    const backend = namingFullPool(makeBackend(pool, parts));
    current = backend;
    try {
      const known = await catalogue.poolUuid(backend.pool);
      const claim = (uuid: string): Promise<void> => claimPool(catalogue, backend.pool, uuid);
      swept.set(backend.pool, await backend.start(known === null ? 'any' : 'existing', claim));
      return backend;
    } catch (thrown) {
      await bestEffort(() => backend.stop(), logLeftover(logger, halfStarted(pool.name)));
      throw unavailable(backend.pool, thrown);
    }
  };
}

function notAnswering(pool: string, patienceMs: number): CsiError {
  return CsiError.unavailable(
    `pool '${pool}' has not answered for ${patienceMs / 1000} s while it is being started: check its disk, or thaw it ` +
      'with fsfreeze --unfreeze; it is served when it has started',
  );
}

function unavailable(pool: string, thrown: unknown): CsiError {
  return CsiError.failedPrecondition(
    `pool '${pool}' could not be started: ${messageOf(thrown)}; the plugin tries again until that is repaired`,
    { cause: thrown },
  );
}

interface StarterDependencies extends StartDependencies {
  config: Config;
  /** The uuid of the catalogue. */
  owner: string;
  swept: Map<string, readonly string[]>;
}

interface BackendParts {
  config: Config;
  native: NativeRunner;
  owner: string;
  logger: Logger;
  metrics: PluginMetrics | null;
}

function makeBackend(pool: PoolConfig, { config, native: unobserved, owner, logger, metrics }: BackendParts): Backend {
  const { embeddedPoolBytes, embeddedPoolAllocation, overcommitPercent, reservePercent } = config;
  const { name, directory } = pool;
  const native = metrics?.observedRunner(unobserved, name) ?? unobserved;
  const options = {
    pool: name,
    directory,
    owner,
    embeddedPoolBytes,
    overcommitPercent,
    reservePercent,
    freezing: { guardianSocket: config.guardianSocket, limitMs: config.freezeLimitMs },
    onEvent: ({ level, message }: PoolEvent) => {
      metrics?.storage.poolEvent(name, level);
      logger[level]({ pool: name }, message);
    },
  };
  if (pool.kind === 'reflink') {
    const { place } = pool;
    const ofReflink = { embeddedPoolAllocation, changeLists: config.changeLists, place };
    return new ReflinkBackend(native, { ...options, ...ofReflink });
  }
  return new ThinBackend(native, {
    ...options,
    ...config.thin,
    devices: pool.devices,
  });
}
