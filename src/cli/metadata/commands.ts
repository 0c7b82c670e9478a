/**
 * What `allocated` and `delta` share: options, the way of a list from the stream to stdout, and the
 * meaning of every end as an exit code.
 */
import { existsSync } from 'node:fs';
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  isServiceError,
  type MetadataRequest,
  openMetadata,
  parseClientEndpoint,
} from '../client.js';
import { ExitCode, exitCodeOfStatus } from '../exit-codes.js';
import { complain, messageOf, print, runToExitCode, type Verdict } from '../output.js';
import { createListFormatter, FORMATS, type Format, formatSummary } from './formats.js';
import {
  createProgress,
  InterruptedError,
  type MetadataProgress,
  readMetadata,
} from './resumable-stream.js';

interface MetadataOptions {
  endpoint?: string;
  startingOffset: bigint;
  maxResults: number;
  format: Format;
  summary: boolean;
}

const MAX_INT64 = 2n ** 63n - 1n;
const MAX_INT32 = 2n ** 31n - 1n;

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
  return runToExitCode((signal) => printMetadata(socketPath, request, options, signal), verdictOf);
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

function verdictOf(error: unknown): Verdict {
  if (error instanceof InterruptedError) {
    const message = `${error.message}; the last failure: ${(error.cause as Error).message}`;
    return { code: ExitCode.UNREACHABLE, message };
  }
  const code = isServiceError(error) ? exitCodeOfStatus(error.code) : ExitCode.FAILURE;
  return { code, message: messageOf(error) };
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
