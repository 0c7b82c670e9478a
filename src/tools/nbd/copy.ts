/** Runs nbdcopy, which copies what one NBD server reports as data to another NBD server. */
import { runProgram } from './program.js';

export interface CopyOptions {
  /** URI of the server that is read. */
  from: string;
  /** URI of the server that is written. */
  to: string;
  /** Bytes in one request, a power of two. nbdcopy rounds the ranges outwards to multiples of it. */
  requestSize: number;
  /** Zeros of this length, a power of two, are not written; 0, or left out: all are. */
  zeroBytes?: number;
  signal?: AbortSignal | undefined;
}

/**
 * Copies the source's data, zeros included unless `zeroBytes` is given, and leaves the target unchanged where the source
 * has holes. Once this resolves, the target has flushed everything.
 *
 * @throws ExecError if a server ends or refuses a read or a write, and the signal's reason
 */
export async function copyRanges(options: CopyOptions): Promise<void> {
  const { from, to, requestSize, zeroBytes = 0, signal } = options;
  const args = [
    // Without these two options, holes would be written as zeros, and zeros might not be written at all.
    '--destination-is-zero',
    `--sparse=${zeroBytes}`,
    '--flush',
    `--request-size=${requestSize}`,
    from,
    to,
  ];
  await runProgram('nbdcopy', args, { purpose: 'copy the data', signal });
}
