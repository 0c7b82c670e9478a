/**
 * The target of a transfer: nbdcopy writes what the source serves as data to a block device, and nbdinfo tells which ranges the
 * source says are zeros. What the source serves as a hole stays as it is on the device.
 *
 * Both run as a user of their own and can reach the device, the key and the source's port, and nothing else. The target is always
 * a block device: nbdcopy truncates a file before it writes. Knows no snapshots.
 */
import { rm } from 'node:fs/promises';
import { isIPv4 } from 'node:net';
import { CsiError } from '../../base/errors.js';
import { ExecError } from '../../base/process/exec.js';
import { runProgram } from '../../base/process/program.js';
import { SerialQueue } from '../serial-queue.js';
import type { Range } from './piece-list.js';
import { IDENTITY, type Ticket, writeKey } from './ticket.js';
import { processorSecondsFor } from './work.js';

export interface Fetching {
  /** An IPv4 address: GnuTLS refuses the handshake of a client that names its server by an address with colons. */
  readonly host: string;
  readonly port: number;
  readonly ticket: Ticket;
  /** The block device that is written, at least as large as the source's. */
  readonly devicePath: string;
  /** The size of the ranges to be copied. */
  readonly dataBytes: bigint;
  /** How long the source may take for a hundredth of the data, or for the whole map: a cut cable ends no connection. */
  readonly stallMs: number;
  /** A directory that only this user can enter, for the key. */
  readonly directory: string;
  readonly signal: AbortSignal;
}

/** Of each thread of nbdcopy, which bounds its memory. Its own default is twice as much. */
const IN_FLIGHT_BYTES = 8 << 20;

/** Resolves when the device has all data durably. UNAVAILABLE if the source cannot be reached, refuses, stalls or ends early. */
export async function fetchData(
  fetching: Fetching & {
    /** Bytes in one request, a power of two: ranges are rounded outwards to its multiples, with the source's bytes. */
    requestSize: number;
    onPercent?(percent: number): void;
  },
): Promise<void> {
  const { devicePath, requestSize } = fetching;
  const argumentsFor = (uri: string): string[] => [
    // Without these two options, holes would be written as zeros, and zeros in the data might not be written at all.
    '--destination-is-zero',
    '--sparse=0',
    '--flush',
    `--request-size=${requestSize}`,
    `--queue-size=${IN_FLIGHT_BYTES}`,
    // A line for each hundredth of the data.
    '--progress=1',
    uri,
    devicePath,
  ];
  const report = (text: string): void => {
    const [, percent] = /(\d{1,3})\/100\n$/.exec(text) ?? [];
    if (percent !== undefined) fetching.onPercent?.(Math.min(Number(percent), 100));
  };
  await atSource('nbdcopy', fetching, 'copy the data', argumentsFor, report);
}

/**
 * Calls `take` with the ranges that the source says are zeros, ascending, in batches, one batch at a time. Fails as `take` and
 * fetchData do; FAILED_PRECONDITION if a range goes beyond `sizeBytes`.
 */
export async function fetchZeros(
  fetching: Fetching & { sizeBytes: bigint },
  take: (ranges: readonly Range[]) => void | Promise<void>,
): Promise<void> {
  const taken = new SerialQueue();
  let failure: unknown = null;
  let rest = '';
  let position = 0n;
  const parse = (text: string): void => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    const ranges: Range[] = [];
    for (const line of lines) {
      const range = parseLine(line);
      if (range.offset < position || range.offset + range.size > fetching.sizeBytes) throw invalidMap(line);
      position = range.offset + range.size;
      if (range.type === ZERO) ranges.push(range);
    }
    if (ranges.length > 0) void taken.run(async () => take(ranges)).catch((thrown) => (failure ??= thrown));
  };
  await atSource('nbdinfo', fetching, 'ask which ranges are zeros', (uri) => ['--map', uri], parse);
  if (rest !== '') throw invalidMap(rest);
  await taken.idle();
  if (failure !== null) throw failure;
}

/** NBD_STATE_ZERO without NBD_STATE_HOLE: a hole says nothing about the target. */
const ZERO = 2;

function parseLine(line: string): Range & { type: number } {
  const [, offset, size, type] = /^ *(\d{1,19}) +(\d{1,19}) +(\d) /.exec(line) ?? [];
  if (offset === undefined || size === undefined) throw invalidMap(line);
  return { offset: BigInt(offset), size: BigInt(size), type: Number(type) };
}

const invalidMap = (line: string): CsiError =>
  CsiError.failedPrecondition(
    `the source of the transfer has a map that is not valid, at '${line.slice(0, 100)}': look at the source's node`,
  );

async function atSource(
  program: 'nbdcopy' | 'nbdinfo',
  { host, port, ticket, devicePath, dataBytes, stallMs, directory, signal }: Fetching,
  purpose: string,
  argumentsFor: (uri: string) => string[],
  onOutput: (text: string) => void,
): Promise<void> {
  if (!isIPv4(host)) throw CsiError.failedPrecondition(`no snapshot can be read from ${host}: it is no IPv4 address`);
  const keyPath = await writeKey(directory, ticket);
  const uri = `nbds://${IDENTITY}@${host}:${port}/${ticket.exportName}?tls-psk-file=${encodeURIComponent(keyPath)}`;
  // Ends the program, also for a failure of onOutput, which an event calls.
  const ending = new AbortController();
  const stall = (): void => ending.abort(stalled(host, port, stallMs));
  let timer = setTimeout(stall, stallMs);
  const receive = (text: string): void => {
    clearTimeout(timer);
    timer = setTimeout(stall, stallMs);
    try {
      if (!ending.signal.aborted) onOutput(text);
    } catch (thrown) {
      ending.abort(thrown);
    }
  };
  const rights = {
    device: devicePath,
    cpuSeconds: processorSecondsFor(dataBytes),
    gives: [keyPath],
    network: { connect: port },
  };
  try {
    await runProgram(program, argumentsFor(uri), {
      rights,
      purpose: `${purpose} from port ${port} of ${host}`,
      signal: AbortSignal.any([signal, ending.signal]),
      onOutput: receive,
    });
    ending.signal.throwIfAborted();
  } catch (thrown) {
    if (!(thrown instanceof ExecError)) throw thrown;
    throw CsiError.unavailable(thrown.message, { cause: thrown });
  } finally {
    clearTimeout(timer);
    await rm(keyPath, { force: true });
  }
}

const stalled = (host: string, port: number, stallMs: number): CsiError =>
  CsiError.unavailable(
    `port ${port} of ${host} has sent nothing that counts for ${stallMs / 1000} s: look at the network between the nodes, and ` +
      'at the disks of both',
  );
