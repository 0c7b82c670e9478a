/**
 * Computes how many connections the limit of open files allows beside the other files of the process. Without this bound,
 * clients that use up all connections would make clones, mounts and programs fail with EMFILE.
 */
import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { StartError } from './socket-path.js';

/** Files of every process that listens: Node.js, connections that are being closed, a few programs and files at once. */
export const PROCESS_FILES = 64;
/** Files for connections to a listener whose peers are not known yet, or to the metrics listener. */
export const LISTENER_FILES = 64;
const FEWEST_CONNECTIONS = 8;

/**
 * The connections that may be open at once: as many as wanted, or fewer if the limit of open files demands it.
 *
 * @param reserve how many other files the process opens
 * @throws StartError if fewer than FEWEST_CONNECTIONS connections are left
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

/** The soft limit, which is in force. Node.js raises it to the hard limit when Node.js starts. */
export function openFilesLimit(limits: string): number {
  const soft = /^Max open files +(\S+)/m.exec(limits)?.[1];
  if (soft === 'unlimited') return Number.POSITIVE_INFINITY;
  if (soft !== undefined && /^\d+$/.test(soft)) return Number(soft);
  throw new StartError(
    'cannot read the limit of open files: /proc/self/limits has no line "Max open files"; mount proc at /proc',
  );
}
