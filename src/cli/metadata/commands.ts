/**
 * `blockdelta allocated SNAPSHOT` and `blockdelta delta BASE TARGET`: print a list of SnapshotMetadata.
 * Holds their options, prints the list from the stream, and maps each failure to an exit code.
 */
import { type Command, InvalidArgumentError, Option } from 'commander';
import {
  isServiceError,
  type MetadataRequest,
  openMetadata,
  prepareClient,
  socketPathOf,
} from '../client.js';
import { ExitCode, exitCodeOfStatus } from '../exit-codes.js';
import { type CommandFailure, complain, messageOf, print, runToExitCode } from '../output.js';
import { ProgressLine } from '../progress.js';
import { socketProblem } from '../socket.js';
import { createListFormatter, FORMATS, type Format, formatSummary, humanSize } from './formats.js';
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

/** The ranges of a snapshot that hold data. */
export function addAllocatedCommand(program: Command): void {
  const command = program
    .command('allocated')
    .description('list the ranges of a snapshot that hold data')
    .argument('<snapshot>', 'id of the snapshot');
  addMetadataAction(command, 'GetMetadataAllocated', (snapshot = '') => ({
    snapshot_id: snapshot,
  }));
}

/** The ranges that differ between two snapshots of one volume. */
export function addDeltaCommand(program: Command): void {
  const command = program
    .command('delta')
    .description('list the ranges that differ between two snapshots of one volume')
    .argument('<base>', 'id of the older snapshot')
    .argument('<target>', 'id of the newer snapshot');
  addMetadataAction(command, 'GetMetadataDelta', (base = '', target = '') => ({
    base_snapshot_id: base,
    target_snapshot_id: target,
  }));
}

/** Adds the options and the action; `idsOf` turns the arguments into request fields. */
function addMetadataAction(
  command: Command,
  rpc: MetadataRequest['rpc'],
  idsOf: (...snapshots: string[]) => Record<string, string>,
): void {
  command
    .option('--endpoint <endpoint>', "the plugin's socket, unix:///path (default: CSI_ENDPOINT)")
    .addOption(
      new Option('--starting-offset <bytes>', 'start the list at this byte')
        .argParser(parseOffset)
        .default(0n, '0'),
    )
    .addOption(
      new Option('--max-results <count>', 'most entries in one message; 0: the plugin chooses')
        .argParser(parseCount)
        .default(0),
    )
    .addOption(new Option('--format <format>', 'output format').choices(FORMATS).default('table'))
    .option('--summary', 'print totals and times instead of the list', false)
    .addHelpText('after', HELP)
    .action(async (...given: unknown[]) => {
      const snapshots = given.slice(0, command.registeredArguments.length) as string[];
      const options = command.opts<MetadataOptions>();
      const socketPath = socketPathOf(command, options.endpoint);
      const { startingOffset, maxResults } = options;
      const request = { rpc, ids: idsOf(...snapshots), startingOffset, maxResults };
      process.exitCode = await runMetadataCommand(socketPath, request, options);
    });
}

const HELP = `
The list goes to stdout, everything else to stderr. Sizes are in bytes; in ndjson they
are strings. An interrupted stream is resumed where it stopped.

Exit codes:
  0    the whole list was printed, or the reader closed the pipe
  1    another failure
  2    wrong usage
  3    refused: an argument is invalid or out of range
  4    there is no such snapshot
  5    no complete list is possible (for example, the delta of the base is not known);
       take a full backup
  6    cannot connect, or the stream kept being interrupted
  130  stopped by SIGINT or SIGTERM`;

async function runMetadataCommand(
  socketPath: string,
  request: MetadataRequest,
  options: MetadataOptions,
): Promise<ExitCode> {
  // Without this, a wrong path would be retried for seconds. One that nobody serves now may be served soon.
  const problem = await socketProblem(socketPath);
  if (problem !== null && problem.code !== 'ECONNREFUSED') {
    complain(problem.message);
    return ExitCode.UNREACHABLE;
  }
  return runToExitCode((signal) => printMetadata(socketPath, request, options, signal), failureOf);
}

async function printMetadata(
  socketPath: string,
  request: MetadataRequest,
  { format, summary }: MetadataOptions,
  signal: AbortSignal,
): Promise<void> {
  // What the client itself takes to start is no time of the plugin's.
  await prepareClient(socketPath);
  const started = performance.now();
  const formatter = createListFormatter(format);
  const progress = createProgress();
  const sums = { ranges: 0, sizeBytes: 0n };
  const batches = readMetadata((part, end) => openMetadata(socketPath, part, end), request, {
    signal,
    progress,
    onInterrupted: (error, position) => {
      line?.clear();
      complain(`interrupted (${error.message}); resuming at byte ${position}`);
    },
  });
  let position = request.startingOffset;
  // On a terminal the list itself shows how far it is.
  const line =
    process.stdout.isTTY && !summary
      ? null
      : new ProgressLine(() => ({
          share: shareOf(position, progress.capacityBytes),
          text: `${sums.ranges} ranges, ${humanSize(sums.sizeBytes)}`,
        }));
  let needsHead = !summary;
  try {
    for await (const entries of batches) {
      sums.ranges += entries.length;
      for (const { offset, size } of entries) {
        sums.sizeBytes += size;
        position = offset + size;
      }
      if (summary) continue;
      const head = needsHead ? formatter.head(progress.capacityBytes ?? 0n) : '';
      needsHead = false;
      await print(head + formatter.rows(entries));
    }
  } catch (thrown) {
    throw await withSocketProblem(thrown, socketPath);
  } finally {
    line?.end();
  }
  if (!summary) return;
  await print(formatSummary(format, { ...sums, ...timesOf(progress, started) }));
}

function shareOf(position: bigint, capacityBytes: bigint | null): number | null {
  if (capacityBytes === null || capacityBytes === 0n) return null;
  return Number((position * 1000n) / capacityBytes) / 1000;
}

/** Says what keeps the client from connecting now, where that is why it gave up. */
async function withSocketProblem(thrown: unknown, socketPath: string): Promise<unknown> {
  if (!(thrown instanceof InterruptedError)) return thrown;
  const problem = await socketProblem(socketPath);
  if (problem === null) return thrown;
  return new InterruptedError(`${thrown.message}: ${problem.message}`, { cause: thrown.cause });
}

function timesOf(progress: MetadataProgress, started: number) {
  return { ...progress, seconds: (performance.now() - started) / 1000 };
}

function failureOf(error: unknown): CommandFailure {
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
