/** nbdcopy: copies what one NBD server calls data to another NBD server. */
import { runProgram } from './program.js';

export interface CopyOptions {
  /** URI of the server that is read. */
  from: string;
  /** URI of the server that is written. */
  to: string;
  /** Bytes in one request, a power of two. nbdcopy rounds the ranges outwards to multiples of it. */
  requestSize: number;
  /** Connections to each server, where both accept several; each has a thread. */
  threads?: number;
  /** Requests in flight for each connection. */
  requests?: number;
  signal?: AbortSignal;
  /** How far the copy has come, by position in the device: 0 to 1, in steps of one per cent. */
  onProgress?(share: number): void;
}

/**
 * Copies the source's data, zeros included, and leaves the target alone where the source has holes. When
 * it resolves, the target has flushed everything.
 *
 * @throws ExecError if a server ends or refuses a read or a write, and the signal's reason
 */
export async function copyRanges(options: CopyOptions): Promise<void> {
  const { from, to, requestSize, threads, requests, signal, onProgress } = options;
  const args = [
    // Without these two, holes would be written as zeros, and zeros might not be written at all.
    '--destination-is-zero',
    '--sparse=0',
    '--flush',
    `--request-size=${requestSize}`,
    ...(threads === undefined ? [] : [`--threads=${threads}`, `--connections=${threads}`]),
    ...(requests === undefined ? [] : [`--requests=${requests}`]),
    ...(onProgress === undefined ? [] : ['--progress=3']),
    from,
    to,
  ];
  let partial = '';
  await runProgram('nbdcopy', args, {
    purpose: 'copy the data',
    ...(signal === undefined ? {} : { signal }),
    onExtra: (text) => {
      const lines = (partial + text).split('\n');
      partial = lines.pop() ?? '';
      const share = shareOf(lines.at(-1));
      if (share !== null) onProgress?.(share);
    },
  });
}

/** nbdcopy writes lines such as "42/100". */
function shareOf(line: string | undefined): number | null {
  const percent = /^(\d{1,3})\/100$/.exec(line ?? '')?.[1];
  return percent === undefined ? null : Number(percent) / 100;
}
