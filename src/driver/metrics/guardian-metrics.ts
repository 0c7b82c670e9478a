/** Whether the guardian at the configured socket runs, asked at each collection. Knows nothing of freezes. */
import { connect } from 'node:net';
import { Gauge, type Registry } from 'prom-client';
import { errorCode } from '../../base/errors.js';
import type { Source } from '../../server/metrics/exposition.js';

export class GuardianMetrics {
  readonly #up: Gauge;

  constructor(registry: Registry) {
    this.#up = new Gauge({
      name: 'blockdelta_guardian_up',
      help: '1 if a process serves BLOCKDELTA_GUARDIAN_SOCKET, 0 if none does; no series without that setting',
      registers: [registry],
    });
    // Without a source there is no guardian to be seen.
    this.#up.remove();
  }

  source(socketPath: string): Source {
    return async () => this.#up.set((await isServed(socketPath)) ? 1 : 0);
  }
}

/**
 * The guardian's socket keeps the boundaries of messages (SOCK_SEQPACKET), and Node.js connects to streams only. Linux refuses that with
 * EPROTOTYPE while a process holds the socket, and with ECONNREFUSED or ENOENT afterwards, so that no connection is made.
 */
function isServed(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', (error) => resolve(errorCode(error) === 'EPROTOTYPE'));
  });
}
