/**
 * `blockdelta thin-delta`: the blocks that differ between two thin devices of any dm-thin pool, read from
 * the pool's metadata. Needs no plugin.
 */
import { type Command, Option } from 'commander';
import { readRuns } from '../../driver/inspection/thin-runs.js';
import { ThinTrees } from '../../driver/inspection/thin-trees.js';
import type { NativeRunner } from '../../driver/native/pool.js';
import { jsonOption } from '../metadata/formats.js';
import { print } from '../output.js';
import { ProgressLine } from '../progress.js';
import {
  addMetadataOptions,
  deviceOption,
  METADATA_HELP,
  type MetadataOptions,
  type NamedMetadata,
  namedMetadata,
  runOnMetadata,
  warnOfNeedsCheck,
} from './options.js';
import { createPrinter, createSummaryPrinter, THIN_FORMATS, type ThinFormat } from './printers.js';

interface DeltaOptions extends MetadataOptions {
  base?: number;
  thin1?: number;
  snap1?: number;
  target?: number;
  thin2?: number;
  snap2?: number;
  format?: ThinFormat;
  summary: boolean;
}

export interface ThinDeltaRequest {
  metadata: NamedMetadata;
  base: number;
  target: number;
  format: ThinFormat;
  summary: boolean;
}

export function addThinDeltaCommand(program: Command): void {
  const command = program
    .command('thin-delta')
    .description("list the ranges that differ between two thin devices, from their pool's metadata");
  addMetadataOptions(command)
    .addOption(deviceOption('--base <id>', 'id of the older device; also --thin1 or --snap1 (required)'))
    .addOption(deviceOption('--target <id>', 'id of the newer device; also --thin2 or --snap2 (required)'))
    .addOption(
      new Option('--format <format>', 'output format (default: table; xml after --thin1, --snap1)').choices(
        THIN_FORMATS,
      ),
    )
    .addOption(jsonOption())
    .option('--summary', 'print totals and the time instead of the list', false);
  for (const flags of ['--thin1 <id>', '--snap1 <id>', '--thin2 <id>', '--snap2 <id>']) {
    command.addOption(deviceOption(flags, '').hideHelp());
  }
  command
    .addHelpText('after', HELP + METADATA_HELP)
    .action(async (positional: string | undefined, options: DeltaOptions) => {
      const request = requestOf(command, positional, options);
      process.exitCode = await runOnMetadata(request.metadata, (runner, signal) =>
        printThinDelta(runner, request, signal),
      );
    });
}

const HELP = `
table, ndjson and csv list the changed ranges in bytes: blocks that only one device maps, and blocks
that both map differently. xml is the output of thin_delta 0.9: in data blocks, including equal ones.
With thin_delta's own options xml is the default, so a script has to change only the program's name.
The list goes to stdout, everything else to stderr.
`;

function requestOf(command: Command, positional: string | undefined, options: DeltaOptions): ThinDeltaRequest {
  const base = onlyOne(command, '--base', [options.base, options.thin1, options.snap1]);
  const target = onlyOne(command, '--target', [options.target, options.thin2, options.snap2]);
  const format = options.format ?? (options.base === undefined ? 'xml' : 'table');
  if (format === 'xml' && options.summary) return command.error('error: xml has no --summary');
  const metadata = namedMetadata(command, positional, options);
  return { metadata, base, target, format, summary: options.summary };
}

function onlyOne(command: Command, name: string, given: readonly (number | undefined)[]): number {
  const ids = given.filter((id) => id !== undefined);
  const [id] = ids;
  if (id !== undefined && ids.length === 1) return id;
  return command.error(
    id === undefined
      ? `error: no ${name} is given: use the id of a thin device (blockdelta thin-ls lists them)`
      : `error: ${name} is given twice: ${ids.join(' and ')}`,
  );
}

/** Prints nothing until the first batch is checked. */
export async function printThinDelta(
  runner: NativeRunner,
  { metadata, base, target, format, summary }: ThinDeltaRequest,
  signal: AbortSignal,
): Promise<void> {
  const started = performance.now();
  const trees = await ThinTrees.open(runner, metadata.path, metadata.snapshot);
  warnOfNeedsCheck(trees);
  const { superblock, current } = trees;
  const poolBytes = current.dataBlocks * current.dataBlockBytes;
  const delta = { superblock, poolBytes, base, target };
  const printer =
    summary && format !== 'xml'
      ? createSummaryPrinter(format, delta, () => (performance.now() - started) / 1000)
      : createPrinter(format, delta);
  const includeSame = format === 'xml';
  let { head } = printer;
  let reached = 0n;
  // On a terminal the printed list itself shows the progress.
  const line =
    process.stdout.isTTY && !summary
      ? null
      : new ProgressLine(() => ({
          share: Number((reached * 1000n) / (current.dataBlocks || 1n)) / 1000,
          text: `block ${reached}`,
        }));
  try {
    for await (const batch of readRuns(trees, { base, target, includeSame }, signal)) {
      const last = batch.runs.at(-1);
      if (last !== undefined) reached = last.begin + last.length;
      await print(head + printer.rows(batch));
      head = '';
    }
  } finally {
    line?.end();
  }
  await print(printer.tail());
}
