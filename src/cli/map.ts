/**
 * `blockdelta map SNAPSHOT`: draws a list of SnapshotMetadata, in the terminal or as an HTML page. This command
 * reads the list as `allocated` and `delta` do; src/tools/map/ draws the picture.
 */
import type { Command } from 'commander';
import { GrainMerger } from '../tools/client/grain.js';
import { type MetadataRequest, openMetadata, requestFor } from '../tools/client/metadata-stream.js';
import { createProgress, readMetadata } from '../tools/client/resumable-stream.js';
import { CellCounter, type Cells, coarsen } from '../tools/map/cells.js';
import { factsOf, formatPage, type Grain, type Subject, titleOf } from '../tools/map/page.js';
import { renderGrid, type Window } from '../tools/map/terminal.js';
import { socketPathOf } from './endpoint.js';
import { grainOption } from './metadata/commands.js';
import { runListCommand, shareOf, withSocketProblem } from './metadata/list-command.js';
import { complain, print } from './output.js';
import { checkOutputs, writeOutput } from './output-file.js';
import { parsePath } from './paths.js';
import { ProgressLine } from './progress.js';

interface MapOptions {
  base?: string;
  endpoint?: string;
  grain?: bigint;
  html?: string;
  json: boolean;
}

type Source = Omit<Subject, 'grain'>;

/** The maximum number of cells that --json prints. */
const JSON_CELLS = 4096;

export function addMapCommand(program: Command): void {
  const command = program
    .command('map')
    .description('draw where a snapshot holds data, or what changed since another one')
    .argument('<snapshot>', 'id of the snapshot')
    .option('--base <snapshot>', 'an older snapshot of the same volume: draw what changed since then')
    .option('--endpoint <endpoint>', "the plugin's socket, unix:///path (default: CSI_ENDPOINT)")
    .addOption(grainOption(': draws what a tool with such chunks reads, and says how many times as much that is'))
    .option('--html <file>', 'write a page for a browser; the terminal shows only the totals', parsePath)
    .option('--json', 'print totals and cells as JSON instead of the picture', false)
    .addHelpText('after', HELP)
    .action(async (snapshotId: string) => {
      const options = command.opts<MapOptions>();
      const socketPath = socketPathOf(command, options.endpoint);
      process.exitCode = await runListCommand(socketPath, (signal) => drawMap(socketPath, snapshotId, options, signal));
    });
}

const HELP = `
The picture fits the window: COLUMNS says how wide it is where the output is no terminal.
Colours are used on a terminal, unless NO_COLOR is set. The exit codes are those of
allocated and delta.`;

async function drawMap(
  socketPath: string,
  snapshotId: string,
  options: MapOptions,
  signal: AbortSignal,
): Promise<void> {
  const source = { snapshotId, baseId: options.base ?? null };
  await checkOutputs([options.html]);
  const { cells, grain } = await readCells(socketPath, source, options.grain ?? null, signal);
  const subject = { ...source, grain };
  if (options.html !== undefined) await writeOutput(options.html, formatPage(subject, cells));
  if (options.json) await print(`${JSON.stringify(toJson(subject, cells))}\n`);
  else await print(options.html === undefined ? picture(subject, cells) : heading(subject, cells));
}

async function readCells(
  socketPath: string,
  source: Source,
  grainBytes: bigint | null,
  signal: AbortSignal,
): Promise<{ cells: Cells; grain: Grain | null }> {
  const progress = createProgress();
  let counter: CellCounter | null = null;
  const merger = grainBytes === null ? null : new GrainMerger(grainBytes);
  let position = 0n;
  const line = new ProgressLine(() => ({
    share: shareOf(position, progress.capacityBytes),
    text: `${counter?.ranges ?? 0} ranges`,
  }));
  const open = (part: MetadataRequest, end: AbortSignal) => openMetadata(socketPath, part, end);
  try {
    for await (const entries of readMetadata(open, requestFor(source.snapshotId, source.baseId), {
      signal,
      progress,
      onInterrupted: (error, offset) => {
        line.clear();
        complain(`interrupted (${error.message}); resuming at byte ${offset}`);
      },
    })) {
      if (progress.capacityBytes === null) continue;
      counter ??= new CellCounter(progress.capacityBytes);
      counter.add(merger?.add(entries, progress.capacityBytes) ?? entries);
      const last = entries.at(-1);
      if (last !== undefined) position = last.offset + last.size;
    }
  } catch (thrown) {
    throw await withSocketProblem(thrown, socketPath);
  } finally {
    line.end();
  }
  if (counter !== null) {
    counter.add(merger?.finish() ?? []);
    return { cells: counter, grain: grainOf(grainBytes, merger) };
  }
  throw new Error(
    `the driver ended the list of snapshot ${source.snapshotId} without a message, so the size of the volume is ` +
      'not known: check the driver with blockdelta conformance',
  );
}

function grainOf(bytes: bigint | null, merger: GrainMerger | null): Grain | null {
  return bytes === null || merger === null ? null : { bytes, unmerged: merger.cost };
}

function picture(subject: Subject, cells: Cells): string {
  return `${heading(subject, cells)}\n${renderGrid(cells, windowOf(process.stdout, process.env))}`;
}

function heading(subject: Subject, cells: Cells): string {
  const facts = factsOf(subject, cells);
  const width = Math.max(...facts.map(([name]) => name.length));
  const lines = facts.map(([name, value]) => `${name.padEnd(width)}  ${value}\n`);
  return `${titleOf(subject)}\n${lines.join('')}`;
}

/** The size of the terminal. Without a terminal: COLUMNS or 80 columns, and as many rows as fit a usual terminal. */
function windowOf(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Window {
  const isTerminal = stream.isTTY === true;
  const given = Number(env['COLUMNS']);
  const columns = isTerminal ? stream.columns : given > 0 && given <= MAX_COLUMNS ? given : 80;
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG'] || '';
  return {
    columns: columns || 80,
    rows: Math.max((isTerminal ? stream.rows : 0) - LINES_AROUND, MIN_ROWS),
    colours: isTerminal && !env['NO_COLOR'] && stream.hasColors(256, env),
    unicode: /utf-?8/i.test(locale),
  };
}

const MAX_COLUMNS = 1000;
/** The lines of the title, the totals, the legend and the prompt. */
const LINES_AROUND = 10;
const MIN_ROWS = 14;

/** Sizes are strings, because most JSON readers are inexact above 2^53. */
function toJson(subject: Subject, fine: Cells): object {
  const cells = coarsen(fine, JSON_CELLS);
  return {
    snapshot_id: subject.snapshotId,
    base_snapshot_id: subject.baseId,
    volume_capacity_bytes: cells.capacityBytes.toString(),
    grain_bytes: subject.grain?.bytes.toString() ?? null,
    ranges: cells.ranges,
    size_bytes: cells.totalBytes.toString(),
    cell_bytes: cells.cellBytes.toString(),
    cells: Array.from(cells.bytes, (bytes) => BigInt(bytes).toString()),
  };
}
