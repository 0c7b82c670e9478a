/** The files that the plugin opens beside connections of its clients. */
import { LISTENER_FILES, PROCESS_FILES } from '../../base/listening/open-files.js';
import type { Config } from '../config/config.js';

/** A thread itself has four. Its task opens the directories of a pool, a file and a device. */
const THREAD_FILES = 8;
/** Threads for mounts, the catalogue and its backups. */
const OTHER_THREADS = 10;
/** Devices or databases of a pool, and threads of a thin pool. */
const POOL_FILES = 32;

export function pluginFiles({
  deviceThreads,
  scanThreads,
  pools,
  listen,
  metricsAddress,
}: Pick<Config, 'deviceThreads' | 'scanThreads' | 'pools' | 'listen' | 'metricsAddress'>): number {
  const threads = deviceThreads + scanThreads + OTHER_THREADS;
  const listeners = [listen, metricsAddress].filter((listener) => listener !== null);
  return (
    PROCESS_FILES +
    threads * THREAD_FILES +
    pools.length * POOL_FILES +
    listeners.length * LISTENER_FILES
  );
}
