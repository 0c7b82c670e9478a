/**
 * What `allocated` and `delta` share: options, the way of a list from the stream to stdout, and the
 * meaning of every end as an exit code.
 */
import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { errorCode, StatusCode } from '../errors.js';
import {
  isServiceError,
  type MetadataRequest,
  openMetadata,
  parseClientEndpoint,
} from './client.js';
import { ExitCode } from './exit-codes.js';
import { createListFormatter, FORMATS, type Format, formatSummary } from './formats.js';
import {
  createProgress,
  InterruptedError,
  type MetadataProgress,
  readMetadata,
} from './metadata-stream.js';

interface MetadataOptions {
  endpoint?: string;
  startingOffset: bigint;
  maxResults: number;
  format: Format;
  summary: boolean;
}

const MAX_INT64 = 2n ** 63n - 1n;
const MAX_INT32 = 2n ** 31n - 1n;

/** SIGINT: whoever sent it needs no message. */
class Interrupt extends Error {}

/** Adds the shared options and the action; `idsOf` turns the arguments into request fields. */
export function addMetadataAction(
  command: Command,
  rpc: MetadataRequest['rpc'],
  idsOf: (...snapshots: string[]) => Record<string, string>,
): void {
  command
    .option('--endpoint <endpoint>', "the plugin's socket, unix:///path (default: CSI_ENDPOINT)")
    .addOption(
      new Option('--starting-offset <bytes>', 'list from this byte on')
        .argParser(parseOffset)
        .default(0n, '0'),
    )
    .addOption(
      new Option('--max-results <count>', 'entries in one message; 0: the plugin chooses')
        .argParser(parseCount)
        .default(0),
    )
    .addOption(new Option('--format <format>', 'how to print').choices(FORMATS).default('table'))
    .option('--summary', 'print counts and times instead of the list', false)
    .addHelpText('after', HELP)
    .action(async (...given: unknown[]) => {
      const snapshots = given.slice(0, command.registeredArguments.length) as string[];
      const options = command.opts<MetadataOptions>();
      const socketPath = endpointOf(command, options);
      const { startingOffset, maxResults } = options;
      const request = { rpc, ids: idsOf(...snapshots), startingOffset, maxResults };
      process.exitCode = await runMetadataCommand(socketPath, request, options);
    });
}

const HELP = `
The list goes to stdout, everything else to stderr. Sizes are bytes; ndjson has them
as strings. A stream that is interrupted is resumed where it stopped.

Exit codes:
  0    the whole list was printed, or the reader of the pipe had seen enough
  1    failed otherwise
  2    wrong usage
  3    refused: an argument is invalid or out of range
  4    there is no such snapshot
  5    no list can be given (for example: not enough is known about the base);
       take a full backup
  6    cannot connect, or the stream kept being interrupted
  130  stopped by SIGINT`;

function endpointOf(command: Command, options: MetadataOptions): string {
  const endpoint = options.endpoint ?? process.env['CSI_ENDPOINT'] ?? '';
  if (endpoint === '') command.error('error: no endpoint: give --endpoint or set CSI_ENDPOINT');
  try {
    return parseClientEndpoint(endpoint);
  } catch (error) {
    return command.error(`error: ${(error as Error).message}`);
  }
}

async function runMetadataCommand(
  socketPath: string,
  request: MetadataRequest,
  options: MetadataOptions,
): Promise<ExitCode> {
  // Without this, a wrong path would be tried again for seconds.
  if (!existsSync(socketPath)) {
    complain(`there is no socket at ${socketPath}: is the plugin running?`);
    return ExitCode.UNREACHABLE;
  }
  const interrupt = new AbortController();
  const onSigint = (): void => interrupt.abort(new Interrupt());
  process.once('SIGINT', onSigint);
  // A write that fails is told by its callback; unheard, the event would end the process.
  process.stdout.on('error', () => undefined);
  try {
    await printMetadata(socketPath, request, options, interrupt.signal);
    return ExitCode.OK;
  } catch (error) {
    return exitCodeOf(interrupt.signal.aborted ? interrupt.signal.reason : error);
  } finally {
    process.off('SIGINT', onSigint);
  }
}

async function printMetadata(
  socketPath: string,
  request: MetadataRequest,
  { format, summary }: MetadataOptions,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  const formatter = createListFormatter(format);
  const progress = createProgress();
  const sums = { ranges: 0, sizeBytes: 0n };
  const batches = readMetadata((part, end) => openMetadata(socketPath, part, end), request, {
    signal,
    progress,
    onInterrupted: (error, position) =>
      complain(`interrupted (${error.message}); going on at byte ${position}`),
  });
  let isHeadDue = !summary;
  for await (const entries of batches) {
    sums.ranges += entries.length;
    for (const { size } of entries) sums.sizeBytes += size;
    if (summary) continue;
    const head = isHeadDue ? formatter.head(progress.capacityBytes ?? 0n) : '';
    isHeadDue = false;
    await print(head + formatter.rows(entries));
  }
  if (!summary) return;
  await print(formatSummary(format, { ...sums, ...timesOf(progress, started) }));
}

function timesOf(progress: MetadataProgress, started: number) {
  return { ...progress, seconds: (performance.now() - started) / 1000 };
}

/** Resolves when the text is written, so that a slow reader makes the plugin wait. */
async function print(text: string): Promise<void> {
  if (text === '') return;
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

const EXIT_CODES: Readonly<Record<number, ExitCode>> = {
  [StatusCode.INVALID_ARGUMENT]: ExitCode.INVALID_ARGUMENT,
  [StatusCode.OUT_OF_RANGE]: ExitCode.INVALID_ARGUMENT,
  [StatusCode.NOT_FOUND]: ExitCode.NOT_FOUND,
  [StatusCode.FAILED_PRECONDITION]: ExitCode.FAILED_PRECONDITION,
};

/** Says what happened on stderr, unless whoever ended the command knows. */
function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof Interrupt) return ExitCode.INTERRUPTED;
  // The reader of the pipe has seen enough.
  if (errorCode(error) === 'EPIPE') return ExitCode.OK;
  if (error instanceof InterruptedError) {
    complain(`${error.message}; the last failure: ${(error.cause as Error).message}`);
    return ExitCode.UNREACHABLE;
  }
  complain(error instanceof Error ? error.message : String(error));
  return isServiceError(error) ? (EXIT_CODES[error.code] ?? ExitCode.FAILURE) : ExitCode.FAILURE;
}

function complain(message: string): void {
  process.stderr.write(`blockdelta: ${message}\n`);
}

function parseOffset(value: string): bigint {
  return parseWholeNumber(value, MAX_INT64);
}

function parseCount(value: string): number {
  return Number(parseWholeNumber(value, MAX_INT32));
}

function parseWholeNumber(value: string, maximum: bigint): bigint {
  const number = /^\d{1,19}$/.test(value) ? BigInt(value) : -1n;
  if (number >= 0n && number <= maximum) return number;
  throw new InvalidArgumentError(`It must be a whole number from 0 to ${maximum}.`);
}
