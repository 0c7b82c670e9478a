/**
 * The threads of the plugin: how many of each kind there may be, and what they are for. All start when they are
 * needed, and all but two end when they are idle.
 */
import type { Config } from '../config/config.js';
import type { PluginMetrics } from '../metrics/plugin-metrics.js';
import { CallPlaces, type PendingCall } from '../native/call-places.js';
import { DeviceThreads, type Lanes } from '../native/device-threads.js';
import { NativePool, type NativeRunner, type PoolOptions } from '../native/pool.js';
import { ScanThreads } from '../native/scan-threads.js';
import type { Teardown } from './teardown.js';

export interface Threads {
  native: NativeRunner;
  scanThreads: ScanThreads;
  /** What waits for the file system or device of the volume. */
  pendingCall(volumeId: string): PendingCall | null;
  /** The runner of a thin pool, which has this many threads of its own for all that waits for no volume. */
  startThreads(count: number, pool: string): Promise<NativeRunner>;
}

export type ThreadSettings = Pick<
  Config,
  'pools' | 'scanThreads' | 'deviceThreads' | 'volumeThreads'
>;

/** How many threads there are at most, without those of thin pools. */
export function threadCounts(settings: ThreadSettings) {
  const { pools, scanThreads, deviceThreads, volumeThreads } = settings;
  return {
    scan: scanThreads,
    device: deviceThreads,
    // The directories of each pool may be on a dead disk, and opening them then holds a thread.
    lookUp: deviceThreads + pools.length,
    // As many again for what ends a stop, or the use of a volume.
    volume: 2 * volumeThreads,
  };
}

export async function startThreads(
  settings: ThreadSettings,
  teardown: Teardown,
  metrics: PluginMetrics | null,
): Promise<Threads> {
  const counts = threadCounts(settings);
  const devices = await startPool(counts.device, teardown, { kept: 1 });
  // No other call gets into these, not even where no thread can be started.
  const lookUps = await startPool(counts.lookUp, teardown, { kept: 1 });
  const volumes = await startPool(counts.volume, teardown, { fallback: devices });
  const scans = await startPool(counts.scan, teardown, { fallback: devices });
  const scanThreads = new ScanThreads(scans, counts.scan);
  metrics?.observeWorkers('device', () => devices.load);
  metrics?.observeWorkers('look-up', () => lookUps.load);
  metrics?.observeWorkers('volume', () => volumes.load);
  metrics?.observeWorkers('scan', () => ({ ...scans.load, queued: scanThreads.waiting }));
  const lanes: Lanes = {
    'look-up': { threads: lookUps, places: new CallPlaces(counts.lookUp, LOOK_UPS) },
    pool: { threads: devices, places: null },
    volume: { threads: volumes, places: new CallPlaces(settings.volumeThreads, VOLUMES) },
    release: { threads: volumes, places: new CallPlaces(settings.volumeThreads, VOLUMES) },
  };
  return {
    native: new DeviceThreads(lanes),
    scanThreads,
    pendingCall: (volumeId) => lanes.volume.places?.pending(volumeId) ?? null,
    startThreads: async (count, pool) => {
      const threads = await startPool(count, teardown, { fallback: devices });
      metrics?.observeWorkers(`thin-${pool}`, () => threads.load);
      const own = { threads, places: null };
      return new DeviceThreads({ ...lanes, 'look-up': own, pool: own });
    },
  };
}

const LOOK_UPS = {
  waitFor: 'the disk of a pool',
  remedy: 'check the disks of the pools and the kernel log',
};

const VOLUMES = {
  waitFor: 'the file system or device of a volume',
  remedy:
    'most likely another program, such as the hook of a backup, has frozen it: thaw it with ' +
    'fsfreeze --unfreeze; otherwise check its disk and the kernel log',
};

async function startPool(
  threads: number,
  teardown: Teardown,
  options: PoolOptions,
): Promise<NativePool> {
  const pool = new NativePool(threads, options);
  teardown.add(() => pool.close());
  await pool.warm();
  return pool;
}
