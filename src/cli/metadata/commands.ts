/**
 * `blockdelta allocated SNAPSHOT` and `blockdelta delta BASE TARGET`: print a list of SnapshotMetadata.
 * This file has their options, prints the list from the stream, and maps each failure to an exit code.
 */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { humanSize } from '../../base/human-size.js';
import { GrainMerger, parseGrain } from '../../tools/client/grain.js';
import type { Entry } from '../../tools/client/list.js';
import { type MetadataRequest, openMetadata, prepareClient, requestFor } from '../../tools/client/metadata-stream.js';
import { createProgress, readMetadata } from '../../tools/client/resumable-stream.js';
import { socketPathOf } from '../endpoint.js';
import { complain, print } from '../output.js';
import { ProgressLine } from '../progress.js';
import { createListFormatter, FORMATS, type Format, formatSummary, jsonOption } from './formats.js';
import { runListCommand, shareOf, withSocketProblem } from './list-command.js';

interface MetadataOptions {
  endpoint?: string;
  startingOffset: bigint;
  maxResults: number;
  format: Format;
  summary: boolean;
  grain?: bigint;
}

const MAX_INT64 = 2n ** 63n - 1n;
const MAX_INT32 = 2n ** 31n - 1n;

export function addAllocatedCommand(program: Command): void {
  const command = program
    .command('allocated')
    .description('list the ranges of a snapshot that hold data')
    .argument('<snapshot>', 'id of the snapshot');
  addMetadataAction(command, (snapshot = '') => requestFor(snapshot, null));
}

export function addDeltaCommand(program: Command): void {
  const command = program
    .command('delta')
    .description('list the ranges that differ between two snapshots of one volume')
    .argument('<base>', 'id of the older snapshot')
    .argument('<target>', 'id of the newer snapshot');
  addMetadataAction(command, (base = '', target = '') => requestFor(target, base));
}

/** Adds the options and the action; `requestOf` gets the arguments. */
function addMetadataAction(command: Command, requestOf: (...snapshots: string[]) => MetadataRequest): void {
  command
    .option('--endpoint <endpoint>', "the plugin's socket, unix:///path (default: CSI_ENDPOINT)")
    .addOption(
      new Option('--starting-offset <bytes>', 'start the list at this byte, which need not be aligned')
        .argParser((value) => parseWholeNumber(value, MAX_INT64))
        .default(0n, '0'),
    )
    .addOption(
      new Option('--max-results <count>', 'most entries in one message, which changes no result; 0: the plugin chooses')
        .argParser((value) => Number(parseWholeNumber(value, MAX_INT32)))
        .default(0),
    )
    .addOption(grainOption('; --summary then says what that costs'))
    .addOption(new Option('--format <format>', 'output format').choices(FORMATS).default('table'))
    .addOption(jsonOption())
    .option('--summary', 'print totals and times instead of the list', false)
    .addHelpText('after', HELP)
    .action(async (...given: unknown[]) => {
      const snapshots = given.slice(0, command.registeredArguments.length) as string[];
      const options = command.opts<MetadataOptions>();
      const socketPath = socketPathOf(command, options.endpoint);
      const { startingOffset, maxResults } = options;
      const request = { ...requestOf(...snapshots), startingOffset, maxResults };
      process.exitCode = await runListCommand(socketPath, (signal) =>
        printMetadata(socketPath, request, options, signal),
      );
    });
}

/** The option --grain, for commands whose list is meant for tools that work in chunks; `more` ends its description. */
export function grainOption(more: string): Option {
  return new Option(
    '--grain <size>',
    `round ranges outwards to multiples of this chunk size, such as 64Ki or 1Mi, and merge what touches${more}`,
  ).argParser((value) => {
    const grain = parseGrain(value);
    if (grain !== null) return grain;
    throw new InvalidArgumentError('It must be a multiple of 512 bytes, up to 1Gi.');
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

async function printMetadata(
  socketPath: string,
  request: MetadataRequest,
  { format, summary, grain }: MetadataOptions,
  signal: AbortSignal,
): Promise<void> {
  // The client starts before the measurement, because its start time is not the plugin's.
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
  // On a terminal the printed list itself shows the progress.
  const line =
    process.stdout.isTTY && !summary
      ? null
      : new ProgressLine(() => ({
          share: shareOf(position, progress.capacityBytes),
          text: `${sums.ranges} ranges, ${humanSize(sums.sizeBytes)}`,
        }));
  let needsHead = !summary;
  const merger = grain === undefined ? null : new GrainMerger(grain);
  const take = async (entries: readonly Entry[]): Promise<void> => {
    sums.ranges += entries.length;
    for (const { offset, size } of entries) {
      sums.sizeBytes += size;
      position = offset + size;
    }
    if (summary) return;
    const head = needsHead ? formatter.head(progress.capacityBytes ?? 0n) : '';
    needsHead = false;
    await print(head + formatter.rows(entries));
  };
  try {
    for await (const entries of batches) {
      await take(merger === null ? entries : merger.add(entries, progress.capacityBytes ?? 0n));
    }
    if (merger !== null) await take(merger.finish());
  } catch (thrown) {
    throw await withSocketProblem(thrown, socketPath);
  } finally {
    line?.end();
  }
  if (!summary) return;
  const unmerged = merger === null ? {} : { unmerged: merger.cost };
  const seconds = (performance.now() - started) / 1000;
  await print(formatSummary(format, { ...sums, ...unmerged, ...progress, seconds }));
}

function parseWholeNumber(value: string, maximum: bigint): bigint {
  const number = /^\d{1,19}$/.test(value) ? BigInt(value) : -1n;
  if (number >= 0n && number <= maximum) return number;
  throw new InvalidArgumentError(`It must be a whole number from 0 to ${maximum}.`);
}
