/**
 * Builds and starts the pools of this node from the settings: the one place that knows which backend
 * serves which.
 */
import type { Backend } from '../backends/backend.js';
import type { PoolEvent } from '../backends/events.js';
import { ReflinkBackend } from '../backends/reflink/reflink-backend.js';
import { BackendRegistry, type ConfiguredPool } from '../backends/registry.js';
import { ThinBackend } from '../backends/thin/thin-backend.js';
import { CsiError } from '../base/errors.js';
import type { Logger } from '../base/logger.js';
import type { AsyncCatalogue } from '../catalogue/catalogue-client.js';
import type { Config, PoolConfig } from '../config/config.js';
import type { NativeRunner } from '../native/pool.js';
import { claimPool } from '../volumes/reconcile.js';
import type { Teardown } from './teardown.js';

interface StartDependencies {
  catalogue: AsyncCatalogue;
  native: NativeRunner;
  /** Threads of their own; ended when the plugin stops, after what was started behind them. */
  startThreads(count: number): Promise<NativeRunner>;
  logger: Logger;
}

/**
 * Device-mapper's calls wait for I/O of the pool's devices, and for each other when a disk hangs: a pool
 * in that state must not take the threads of the others.
 */
const THREADS_OF_THIN_POOL = 3;

/**
 * A pool that cannot be started is left out, and its failure told by Probe, until the next start: its
 * disk being away must not keep the volumes of the others from being served. Throws if none is left.
 *
 * @param teardown gets what stops the pools again
 */
export async function startBackends(
  config: Config,
  { catalogue, native: shared, startThreads, logger }: StartDependencies,
  teardown: Teardown,
): Promise<BackendRegistry> {
  const owner = await catalogue.uuid();
  const pools: ConfiguredPool[] = [];
  for (const pool of config.pools) {
    const native = pool.kind === 'thin' ? await startThreads(THREADS_OF_THIN_POOL) : shared;
    const backend = makeBackend(pool, { config, native, owner, logger });
    teardown.add(() => backend.stop());
    try {
      const known = await catalogue.poolUuid(backend.pool);
      await backend.start(known === null ? 'any' : 'existing');
      await claimPool(catalogue, backend);
      pools.push(backend);
    } catch (thrown) {
      pools.push({ pool: backend.pool, failure: unavailable(backend.pool, thrown) });
    }
  }
  const registry = new BackendRegistry(pools);
  const [first] = registry.unavailable;
  if (first !== undefined && registry.all.length === 0) throw first.failure.cause ?? first.failure;
  for (const { pool, failure } of registry.unavailable) {
    logger.error({ pool, err: failure }, 'a pool is not served');
  }
  return registry;
}

function unavailable(pool: string, thrown: unknown): CsiError {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return CsiError.failedPrecondition(
    `pool '${pool}' could not be started: ${message}; mend that and restart the plugin`,
    { cause: thrown },
  );
}

interface BackendParts {
  config: Config;
  native: NativeRunner;
  /** Uuid of the catalogue. */
  owner: string;
  logger: Logger;
}

function makeBackend(pool: PoolConfig, { config, native, owner, logger }: BackendParts): Backend {
  const { embeddedPoolBytes, embeddedPoolAllocation, overcommitPercent, reservePercent } = config;
  const { name, directory } = pool;
  const options = {
    ...{ pool: name, directory, owner, embeddedPoolBytes },
    ...{ overcommitPercent, reservePercent },
    onEvent: ({ level, message }: PoolEvent) => logger[level]({ pool: name }, message),
  };
  if (pool.kind === 'reflink') {
    return new ReflinkBackend(native, { ...options, embeddedPoolAllocation });
  }
  return new ThinBackend(native, {
    ...options,
    ...config.thin,
    devices: pool.devices,
  });
}
