/**
 * `blockdelta bench` and `blockdelta bench compare`: their options, output and exit codes. The suites, the statistics
 * and the reports are in tools/bench/.
 */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Argument, type Command } from 'commander';
import { errorCode, messageOf } from '../base/errors.js';
import { compare } from '../tools/bench/compare.js';
import { formatComparison } from '../tools/bench/report/comparison.js';
import { type Document, formatJson, parseDocument } from '../tools/bench/report/document.js';
import { formatHtml } from '../tools/bench/report/html.js';
import { formatMarkdown } from '../tools/bench/report/markdown.js';
import { formatText } from '../tools/bench/report/text.js';
import type { SpeedRow } from '../tools/bench/row.js';
import { runSuites } from '../tools/bench/run-suites.js';
import { SUITES, type Suites } from '../tools/bench/suites/index.js';
import {
  addDriverOptions,
  controllerSocketPathOf,
  type DriverOptions,
  defaultWorkDirectory,
  makeWorkDirectory,
} from './driver-options.js';
import { socketPathOf } from './endpoint.js';
import { ExitCode } from './exit-codes.js';
import { parsePositive, parseSeed, parseSize } from './option-values.js';
import { complain, print, runToExitCode } from './output.js';
import { checkOutputs, writeOutput } from './output-file.js';
import { parsePath } from './paths.js';
import { socketProblem } from './socket.js';

interface BenchOptions extends DriverOptions {
  all: boolean;
  volumeSize?: number;
  rounds: number;
  seed?: number;
  curves: boolean;
  tiny: boolean;
  json: boolean;
  report?: string;
  html?: string;
  markdown: boolean;
  list: boolean;
}

const DEFAULT_ROUNDS = 5;
/** The suite that measures the driver at an endpoint unless other suites are named. */
const DRIVER = 'driver';

const HELP = `
A suite measures the driver at the endpoint or, without one, this plugin on a pool that it makes. It
removes what it has made. Figures depend on the machine; ratios within one run mean something.

Exit codes:
  0    every suite ran, whatever the figures are
  1    a suite failed
  2    wrong usage
  6    nothing serves the endpoint
  130  interrupted by SIGINT or SIGTERM; the objects of the run are removed first`;

const COMPARE_HELP = `
Exit codes:
  0    no row is worse
  1    a row is worse, beyond noise
  2    wrong usage, or a file is not a report`;

/** The suites that can run, and the speed table that judges their rows. */
export interface Bench {
  /** The program that suites start, unless they measure another driver. */
  program: string;
  suites: Suites;
  table: readonly SpeedRow[];
}

export function addBenchCommand(program: Command): void {
  // The suites start the running program, so that they measure the same build.
  addBench(program, { program: process.argv[1] ?? '', suites: SUITES, table: [] });
}

export function addBench(above: Command, measured: Bench): void {
  const { suites } = measured;
  const bench = above.command('bench').description('measure a CSI driver: its lists and its calls');
  bench
    .addArgument(new Argument('[suite...]', 'the suites to run').choices(Object.keys(suites)))
    .option('--all', 'run every suite', false)
    .option(
      '--endpoint <endpoint>',
      "the driver's socket, unix:///path (default: this plugin, started on an XFS pool)",
    );
  addDriverOptions(bench)
    .option('--volume-size <bytes>', 'size of filled volumes, or like 256Mi (default: 1Gi, 2Gi for stream)', parseSize)
    .option('--rounds <number>', 'rounds of each row', parsePositive, DEFAULT_ROUNDS)
    .option('--seed <number>', 'repeat the order of the rounds of a run (default: random)', parseSeed)
    .option('--curves', 'also measure how costs grow; takes longer, and 4Gi without --volume-size', false)
    .option('--tiny', 'tiny sizes, to see that the suites run; the figures mean nothing', false)
    .option('--json', 'print every figure as JSON, instead of the table', false)
    .option('--report <file>', 'also write every figure as JSON', parsePath)
    .option('--html <file>', 'also write a page with charts, which needs no other file', parsePath)
    .option('--markdown', 'print the table as Markdown', false)
    .option('--list', 'print the suites and exit', false)
    .addHelpText('after', HELP)
    .action(async (names: string[]) => {
      const options = bench.opts<BenchOptions>();
      if (options.list) return print(await listOf(suites));
      process.exitCode = await runBench(bench, measured, names, options);
    });
  addCompareCommand(bench);
  addShowCommand(bench);
}

function addCompareCommand(bench: Command): void {
  const command = bench
    .command('compare')
    .description('say what changed between two reports beyond noise')
    .argument('<before>', 'a file that --report has written', parsePath)
    .argument('<after>', 'another one', parsePath)
    .addHelpText('after', COMPARE_HELP)
    .action(async (before: string, after: string) => {
      const [a, b] = [before, after].map((file) => readReport(command, file)) as [Document, Document];
      const rows = compare(a, b);
      await print(formatComparison(a, b, rows));
      const isWorse = rows.some(({ change }) => change === 'worse');
      process.exitCode = isWorse ? ExitCode.FAILURE : ExitCode.OK;
    });
}

function addShowCommand(bench: Command): void {
  const command = bench
    .command('show')
    .description('print a report again, or make its page')
    .argument('<report>', 'a file that --report has written', parsePath)
    .option('--html <file>', 'write a page with charts', parsePath)
    .option('--markdown', 'print the tables as Markdown', false)
    .action(async (file: string) => {
      await write(
        readReport(command, file),
        // Commander assigns an option that both commands have to the parent command, wherever the option is given.
        command.optsWithGlobals<Pick<BenchOptions, 'json' | 'html' | 'markdown'>>(),
      );
    });
}

function readReport(command: Command, file: string): Document {
  try {
    return parseDocument(readFileSync(file, 'utf8'));
  } catch (error) {
    const isMissing = errorCode(error) === 'ENOENT';
    const found = isMissing ? `there is no ${file}` : `cannot read ${file}: ${messageOf(error)}`;
    return command.error(`error: ${found}: give a file that bench --report has written`);
  }
}

async function runBench(
  command: Command,
  { program, suites, table }: Bench,
  asked: readonly string[],
  options: BenchOptions,
): Promise<ExitCode> {
  const names = suitesOf(command, suites, asked, options);
  const endpoint = options.endpoint === undefined ? null : socketPathOf(command, options.endpoint);
  if (endpoint !== null) {
    const problem = await socketProblem(endpoint);
    if (problem !== null) {
      complain(problem.message);
      return ExitCode.UNREACHABLE;
    }
  }
  const controllerSocketPath = controllerSocketPathOf(command, options);
  let failed = false;
  const code = await runToExitCode(async (signal) => {
    await checkOutputs([options.html, options.report]);
    const workDirectory = options.workDirectory ?? (endpoint === null ? tmpdir() : defaultWorkDirectory('csi-bench'));
    const removeWorkDirectory = await makeWorkDirectory(workDirectory);
    try {
      const loaded = await Promise.all(names.map((name) => suites[name]?.()));
      const settings = {
        program,
        rounds: options.rounds,
        size: options.tiny ? ('tiny' as const) : ('full' as const),
        socketPath: endpoint,
        reach: { ...(controllerSocketPath && { controllerSocketPath }), secrets: options.secrets },
        parameters: options.parameters,
        snapshotParameters: options.snapshotParameters,
        workDirectory,
        volumeBytes: options.volumeSize ?? null,
        curves: options.curves,
        table,
        wholeTable: options.all,
        seed: options.seed ?? randomInt(1, 2 ** 31),
        say: (line: string) => process.stderr.write(`${line}\n`),
      };
      const wanted = loaded.filter((suite) => suite !== undefined);
      const document = await runSuites(wanted, settings, signal);
      failed = document.suites.some(({ failure }) => failure !== null);
      await write(document, options);
    } finally {
      await removeWorkDirectory();
    }
  });
  return code === ExitCode.OK && failed ? ExitCode.FAILURE : code;
}

function suitesOf(command: Command, suites: Suites, asked: readonly string[], options: BenchOptions): string[] {
  if (options.all) return Object.keys(suites);
  if (asked.length > 0) return [...new Set(asked)];
  if (options.endpoint !== undefined) return [DRIVER];
  return command.error('error: name a suite, or --all, or --endpoint (--list prints the suites)');
}

async function write(
  document: Document,
  { json, report, html, markdown }: Pick<BenchOptions, 'json' | 'report' | 'html' | 'markdown'>,
): Promise<void> {
  if (html !== undefined) await writeOutput(html, formatHtml(document));
  if (report !== undefined) await writeOutput(report, formatJson(document));
  if (json) await print(formatJson(document));
  else await print(markdown ? formatMarkdown(document) : formatText(document));
}

async function listOf(suites: Suites): Promise<string> {
  const loaded = await Promise.all(Object.values(suites).map((load) => load()));
  const width = Math.max(...loaded.map(({ name }) => name.length));
  return loaded.map(({ name, describes }) => `${name.padEnd(width)}  ${describes}\n`).join('');
}
