/**
 * How many connections the limit of open files allows, beside what the process opens otherwise. Without it
 * clients that fill the connections would make clones, mounts and programs fail with EMFILE.
 */
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { StartError } from '../../base/listening/socket-path.js';
import type { Config } from '../config/config.js';

/** Node.js, catalogue, connections that are being closed, and a few programs at once. */
const PROCESS_FILES = 64;
/** A thread itself has four. Its task opens the directories of a pool, a file and a device. */
const THREAD_FILES = 8;
/** Threads for mounts, the catalogue and its backups. */
const OTHER_THREADS = 10;
/** Devices or databases of a pool, and threads of a thin pool. */
const POOL_FILES = 32;
/** Connections to the listener for routers that are not known yet, or those to the metrics. */
const LISTENER_FILES = 64;
/** Two connections each to 64 nodes. */
const NODES_FILES = 128;
const FEWEST_CONNECTIONS = 8;

/** What the plugin opens beside connections. */
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

/** What a router opens beside connections of its clients. */
export function routerFiles({ metricsAddress }: Pick<Config, 'metricsAddress'>): number {
  return PROCESS_FILES + NODES_FILES + (metricsAddress === null ? 0 : LISTENER_FILES);
}

/**
 * The connections that may be open at once: as many as wanted, or fewer if the limit of open files demands it.
 *
 * @param reserve files that the process opens otherwise
 * @throws StartError if hardly any connection would be left
 */
export async function affordableConnections(
  wanted: number,
  reserve: number,
  log: Pick<Logger, 'warn'>,
): Promise<number> {
  const limit = openFilesLimit(await readFile('/proc/self/limits', 'utf8'));
  const affordable = limit - reserve;
  if (affordable >= wanted) return wanted;
  const remedy =
    `raise the hard limit to ${reserve + wanted} (LimitNOFILE= of a systemd unit, ulimit -Hn of a shell, ` +
    '--ulimit nofile= of a container)';
  if (affordable < FEWEST_CONNECTIONS) {
    throw new StartError(
      `cannot serve with a limit of ${limit} open files: ${reserve} are needed beside connections; ${remedy}`,
    );
  }
  log.warn(
    { limit, reserve, connections: affordable },
    `the limit of ${limit} open files leaves ${affordable} connections instead of the ${wanted} of ` +
      `BLOCKDELTA_MAX_CONNECTIONS; ${remedy}, or lower the setting`,
  );
  return affordable;
}

/** The one in force. Node.js raises it to the hard limit when it starts. */
export function openFilesLimit(limits: string): number {
  const soft = /^Max open files +(\S+)/m.exec(limits)?.[1];
  if (soft === 'unlimited') return Number.POSITIVE_INFINITY;
  if (soft !== undefined && /^\d+$/.test(soft)) return Number(soft);
  throw new StartError(
    'cannot read the limit of open files: /proc/self/limits has no line "Max open files"; mount proc at /proc',
  );
}
