/** What the start line of the log says about the node and its pools. */
import { release } from 'node:os';
import { messageOf } from '../../base/errors.js';
import type { BackendRegistry } from '../backends/registry.js';
import { type Capability, heldCapabilities } from '../host/process-capabilities.js';
import type { LastStop } from './run-marker.js';

interface PoolFacts {
  pool: string;
  kind?: string;
  totalBytes?: bigint;
  freeBytes?: bigint;
  /** Why the pool is not served, or its space is unknown. */
  problem?: string;
}

export interface StartFacts {
  pools: PoolFacts[];
  kernel: string;
  /** The held capabilities, of those that the plugin uses. */
  capabilities: Capability[];
  lastStop: LastStop;
}

export async function startFacts(registry: BackendRegistry, lastStop: LastStop): Promise<StartFacts> {
  const served = await Promise.all(
    registry.all.map(async (backend): Promise<PoolFacts> => {
      const { pool, kind } = backend;
      try {
        const { totalBytes, freeBytes } = await backend.capacity('recent');
        return { pool, kind, totalBytes, freeBytes };
      } catch (thrown) {
        return { pool, kind, problem: messageOf(thrown) };
      }
    }),
  );
  const unserved = registry.unavailable.map(({ pool, failure }) => ({
    pool,
    problem: failure.message,
  }));
  return {
    pools: [...served, ...unserved],
    kernel: release(),
    capabilities: await heldCapabilities(),
    lastStop,
  };
}
