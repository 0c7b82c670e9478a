/**
 * The threads of the plugin: how many of each kind there may be, and what they are for. A thread starts when it is
 * needed, and all but two end when they are idle.
 *
 * All pools share the threads, but there is a thread for each place that a pool has for its calls. A pool that hangs
 * fills only its own places, and the places of the other pools stay free.
 */
import type { Config } from '../config/config.js';
import { FROZEN_BY_OTHERS } from '../host/left-frozen.js';
import type { PluginMetrics } from '../metrics/plugin-metrics.js';
import { CallPlaces, type PendingCall } from '../native/call-places.js';
import { DeviceThreads, KINDS, type Kind, type Lanes } from '../native/device-threads.js';
import { NativePool, type NativeRunner, type PoolOptions } from '../native/pool.js';
import { ScanThreads } from '../native/scan-threads.js';
import type { Teardown } from './teardown.js';

export interface Threads {
  /** The runner for calls for a volume of any pool. */
  native: NativeRunner;
  scanThreads: ScanThreads;
  /** The call that waits for the file system or device of the volume; null if none does. */
  pendingCall(volumeId: string): PendingCall | null;
  /** The runner for calls for the pool. */
  runnerOf(pool: string): NativeRunner;
}

export type ThreadSettings = Pick<Config, 'pools' | 'scanThreads' | 'deviceThreads' | 'volumeThreads'>;

/** Places of each kind for calls for volumes that the catalogue does not know. */
const OF_NO_POOL = 2;
/** Volumes whose pools are remembered. */
const MAX_REMEMBERED = 10_000;

/** The maximum number of threads of each kind. */
export function threadCounts(settings: ThreadSettings) {
  const { pools, scanThreads, deviceThreads, volumeThreads } = settings;
  const ofAll = (ofEach: number): number => pools.length * ofEach + OF_NO_POOL;
  return {
    scan: scanThreads,
    device: ofAll(deviceThreads),
    // Each pool gets one more, because opening its directories holds a thread if they are on a dead disk.
    lookUp: ofAll(deviceThreads + 1),
    // Half of these threads are for calls that end a stop, or the use of a volume.
    volume: 2 * ofAll(volumeThreads),
  };
}

/** @param poolOf resolves to the pool of the volume; null if the catalogue does not know the volume */
export async function startThreads(
  settings: ThreadSettings,
  poolOf: (volumeId: string) => Promise<string | null>,
  teardown: Teardown,
  metrics: PluginMetrics | null,
): Promise<Threads> {
  const counts = threadCounts(settings);
  const devices = await startPool(counts.device, teardown, { kept: 1 });
  // No other call uses these threads, not even when no thread can be started.
  const lookUps = await startPool(counts.lookUp, teardown, { kept: 1 });
  const volumes = await startPool(counts.volume, teardown, { fallback: devices });
  const scans = await startPool(counts.scan, teardown, { fallback: devices });
  const scanThreads = new ScanThreads(scans, counts.scan);
  // A look ends within milliseconds, so two at a time are enough.
  const node = {
    threads: lookUps,
    places: new CallPlaces(OF_NO_POOL, { waitFor: "the node's mounts", remedy: 'check the kernel log' }),
  };
  const lanesOf = (waitFor: string, ofPool: number, ofVolumes: number): Lanes => {
    const lookUp = { waitFor, remedy: 'check its disk, or thaw it with fsfreeze --unfreeze' };
    // Freeing a large file takes seconds, and so does any work on a slow disk.
    const work = { ...lookUp, patienceMs: 10_000 };
    return {
      node,
      'look-up': { threads: lookUps, places: new CallPlaces(ofPool + 1, lookUp) },
      pool: { threads: devices, places: new CallPlaces(ofPool, work) },
      volume: { threads: volumes, places: new CallPlaces(ofVolumes, VOLUMES) },
      release: { threads: volumes, places: new CallPlaces(ofVolumes, VOLUMES) },
    };
  };
  const { pools, deviceThreads, volumeThreads } = settings;
  const ofNone: Lanes = { ...lanesOf('a disk', OF_NO_POOL - 1, OF_NO_POOL), 'look-up': node };
  const lanes = new Map(pools.map(({ name }) => [name, lanesOf(`pool '${name}'`, deviceThreads, volumeThreads)]));
  const all = [...lanes.values(), ofNone];
  const runnerOf = (pool: string | null): NativeRunner => new DeviceThreads(lanes.get(pool ?? '') ?? ofNone);
  const waiting = (kind: Kind): number => all.reduce((sum, { [kind]: { places } }) => sum + places.waiting.size, 0);
  const knownPoolOf = remembering(poolOf);
  metrics?.observeWorkers('device', () => ({ ...devices.load, queued: waiting('pool') }));
  metrics?.observeWorkers('look-up', () => ({ ...lookUps.load, queued: waiting('look-up') }));
  metrics?.observeWorkers('volume', () => ({ ...volumes.load, queued: waiting('volume') }));
  metrics?.observeWorkers('scan', () => ({ ...scans.load, queued: scanThreads.waiting }));
  return {
    native: {
      run: async (method, request, ids = []) => {
        const pool = ids[0] === undefined || KINDS[method] === 'node' ? null : await knownPoolOf(ids[0]);
        return runnerOf(pool).run(method, request, ids);
      },
    },
    scanThreads,
    pendingCall: (volumeId) => all.flatMap(({ volume: { places } }) => places.pending(volumeId) ?? [])[0] ?? null,
    runnerOf,
  };
}

const VOLUMES = {
  waitFor: 'the file system or device of a volume',
  remedy: `${FROZEN_BY_OTHERS}: thaw it with fsfreeze --unfreeze; otherwise check its disk and the kernel log`,
};

/** A volume stays in its pool for life, so each pool is asked for once, as long as not too many are remembered. */
function remembering(poolOf: (volumeId: string) => Promise<string | null>): typeof poolOf {
  const known = new Map<string, string>();
  return async (volumeId) => {
    const pool = known.get(volumeId) ?? (await poolOf(volumeId));
    if (known.size >= MAX_REMEMBERED) known.clear();
    if (pool !== null) known.set(volumeId, pool);
    return pool;
  };
}

async function startPool(threads: number, teardown: Teardown, options: PoolOptions): Promise<NativePool> {
  const pool = new NativePool(threads, options);
  teardown.add(() => pool.close());
  await pool.warm();
  return pool;
}
