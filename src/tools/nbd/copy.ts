/** Copies what one NBD server reports as data to another one, with nbdcopy, or compares it, with qemu-img. */
import { runProgram } from './program.js';

export interface CopyOptions {
  /** URI of the server that is read. */
  from: string;
  /** URI of the server that is written. */
  to: string;
  /** Bytes in one request, a power of two. nbdcopy rounds the ranges outwards to multiples of it. */
  requestSize: number;
  signal?: AbortSignal | undefined;
}

/**
 * Copies the source's data, zeros included, and leaves the target unchanged where the source has holes. Once this
 * resolves, the target has flushed everything.
 *
 * @throws ExecError if a server ends or refuses a read or a write, and the signal's reason
 */
export async function copyRanges(options: CopyOptions): Promise<void> {
  const { from, to, requestSize, signal } = options;
  const args = [
    // Without these two options, holes would be written as zeros, and zeros might not be written at all.
    '--destination-is-zero',
    '--sparse=0',
    '--flush',
    `--request-size=${requestSize}`,
    from,
    to,
  ];
  await runProgram('nbdcopy', args, { purpose: 'copy the data', signal });
}

/** Compares the data of two servers of the same size that report the same ranges as data. Reads nothing else. */
export async function compareRanges(
  a: string,
  b: string,
  signal?: AbortSignal,
): Promise<{ isSame: boolean; detail: string }> {
  const args = ['compare', '-f', 'raw', '-F', 'raw', a, b];
  const { exitCode, stdout } = await runProgram('qemu-img', args, {
    purpose: 'compare what was written',
    accept: [0, 1],
    signal,
  });
  return { isSame: exitCode === 0, detail: stdout.trim() };
}
