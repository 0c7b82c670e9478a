/** The number of files that the plugin opens besides the connections of its clients. */
import { LISTENER_FILES, PROCESS_FILES } from '../../base/listening/open-files.js';
import type { Config } from '../config/config.js';
import { type ThreadSettings, threadCounts } from './threads.js';

/** A thread itself has four files open. Its task opens the directories of a pool, a file and a device. */
const THREAD_FILES = 8;
/** The threads for the catalogue and its backups. */
const OTHER_THREADS = 2;
/** The files for the devices or databases of a pool, and for the threads of a thin pool. */
const POOL_FILES = 32;

export function pluginFiles(config: Pick<Config, 'pools' | 'listen' | 'metricsAddress'> & ThreadSettings): number {
  const { pools, listen, metricsAddress } = config;
  const counts = Object.values(threadCounts(config));
  const threads = counts.reduce((sum, count) => sum + count, OTHER_THREADS);
  const listeners = [listen, metricsAddress].filter((listener) => listener !== null);
  return PROCESS_FILES + threads * THREAD_FILES + pools.length * POOL_FILES + listeners.length * LISTENER_FILES;
}
