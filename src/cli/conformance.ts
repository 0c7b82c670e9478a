/**
 * `blockdelta conformance`: runs the conformance suite against any driver and prints the report. This
 * file has the options, the output and the exit codes; the checks are in tools/conformance/.
 */
import { randomInt } from 'node:crypto';
import { type Command, Option } from 'commander';
import { messageOf } from '../base/errors.js';
import { othersIn } from '../base/system/own-files.js';
import { followWay } from '../base/system/own-way.js';
import { CHECKS } from '../tools/conformance/all-checks.js';
import type { Check } from '../tools/conformance/check.js';
import { soakChecks } from '../tools/conformance/checks/soak.js';
import type { AccessType, SuiteOptions } from '../tools/conformance/options.js';
import type { CheckResult, Report } from '../tools/conformance/report.js';
import { countOf } from '../tools/conformance/report.js';
import { formatJson } from '../tools/conformance/report-json.js';
import { formatJunit } from '../tools/conformance/report-junit.js';
import { formatTable } from '../tools/conformance/report-table.js';
import { isSelected, matches, runSuite } from '../tools/conformance/runner.js';
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
import { complain, harmless, SIGNALS } from './output.js';
import { checkOutputs, writeOutput } from './output-file.js';
import { parseOutput, parsePath } from './paths.js';
import { ProgressLine } from './progress.js';
import { socketProblem } from './socket.js';

interface ConformanceOptions extends DriverOptions {
  access: 'block' | 'mount' | 'both';
  mountFs?: string;
  volumeSize?: number;
  only: string[];
  skip: string[];
  timeout: number;
  seed?: number;
  soak?: number;
  json: boolean;
  report?: string;
  junit?: string;
  list: boolean;
  verbose: boolean;
}

const HELP = `
A run deletes the volumes, snapshots and groups that it creates, and names those that it could not
delete. It creates staging and target paths below --work-directory on this machine: run it as root on
the driver's node.

Exit codes:
  0    every check passed or was skipped
  1    a check failed
  2    wrong usage
  6    no driver answers at the endpoint
  130  interrupted by SIGINT or SIGTERM; the objects of the run are deleted first, for 20 s at most`;

export function addConformanceCommand(program: Command): void {
  const command = program
    .command('conformance')
    .description('test any CSI driver against the specification, over its socket');
  addOptions(command)
    .addHelpText('after', HELP)
    .action(async () => {
      const options = command.opts<ConformanceOptions>();
      if (options.json && options.junit === '-') {
        command.error('error: --json and --junit - both print to stdout: give one of them a file (--report, --junit)');
      }
      assertPatterns(command, options);
      if (options.list) {
        process.stdout.write(listOf(checksOf(options).filter(({ id }) => isSelected(id, options))));
        return;
      }
      process.exitCode = await runConformance(suiteOptionsOf(command, options), options);
    });
}

function addOptions(command: Command): Command {
  const pattern = 'check ids, where * matches anything; repeatable';
  command.option('--endpoint <endpoint>', "the driver's socket, unix:///path (default: CSI_ENDPOINT)");
  return addDriverOptions(command)
    .addOption(
      new Option('--access <type>', 'access types to test with').choices(['block', 'mount', 'both']).default('both'),
    )
    .option('--mount-fs <type>', 'fs_type of mount volumes (default: the driver chooses)')
    .option('--volume-size <bytes>', 'size of volumes, or like 1Gi (default: 64Mi; xfs 320Mi, btrfs 256Mi)', parseSize)
    .option('--only <pattern>', `run only these checks: ${pattern}`, addPattern, [])
    .option('--skip <pattern>', `skip these checks: ${pattern}`, addPattern, [])
    .option('--timeout <seconds>', 'timeout of each check, and of each call including its retries', parsePositive, 60)
    .option('--seed <number>', 'repeat the writes of the run with this seed (default: random, printed)', parseSeed)
    .option(
      '--soak <count>',
      'also compare so many increments of volumes that are written to (checks soak.*)',
      parsePositive,
    )
    .option('--json', 'print the report as JSON, instead of the table', false)
    .option('--report <file>', 'also write the report as JSON', parsePath)
    .option('--junit <file>', 'write the report as JUnit XML; - for stdout, instead of the table', parseOutput)
    .option('--list', 'print the checks and exit', false)
    .option('--verbose', 'report each check on stderr as it runs', false);
}

const checksOf = ({ soak }: ConformanceOptions): readonly Check[] =>
  soak === undefined ? CHECKS : [...CHECKS, ...soakChecks(soak)];

function assertPatterns(command: Command, options: ConformanceOptions): void {
  for (const pattern of [...options.only, ...options.skip]) {
    if (checksOf(options).some(({ id }) => matches(id, pattern))) continue;
    command.error(`error: no check matches '${pattern}': --list prints them`);
  }
}

function suiteOptionsOf(command: Command, options: ConformanceOptions): SuiteOptions {
  const socketPath = socketPathOf(command, options.endpoint);
  const access: readonly AccessType[] = options.access === 'both' ? ['block', 'mount'] : [options.access];
  return {
    socketPath,
    controllerSocketPath: controllerSocketPathOf(command, options) ?? socketPath,
    parameters: options.parameters,
    snapshotParameters: options.snapshotParameters,
    secrets: options.secrets,
    access,
    mountFileSystem: options.mountFs ?? '',
    volumeSizeBytes: options.volumeSize ?? null,
    workDirectory: options.workDirectory ?? defaultWorkDirectory('csi-conformance'),
    only: options.only,
    skip: options.skip,
    timeoutMs: options.timeout * 1000,
    seed: options.seed ?? randomInt(1, 2 ** 31),
  };
}

async function runConformance(options: SuiteOptions, outputs: ConformanceOptions): Promise<ExitCode> {
  for (const path of [options.socketPath, options.controllerSocketPath]) {
    const problem = await socketProblem(path);
    if (problem === null) continue;
    complain(problem.message);
    return ExitCode.UNREACHABLE;
  }
  const interrupt = new AbortController();
  const removeHandlers = (): void => {
    for (const signal of SIGNALS) process.removeListener(signal, onSignal);
  };
  const onSignal = (): void => {
    // A second signal, of either kind, ends the process.
    removeHandlers();
    interrupt.abort();
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  const checks = checksOf(outputs);
  const total = checks.filter(({ id }) => isSelected(id, options)).length;
  let ended = 0;
  let failed = 0;
  let running = '';
  let removeWorkDirectory = (): Promise<void> => Promise.resolve();
  const line = new ProgressLine(() => ({
    share: total === 0 ? null : ended / total,
    text: `${ended} of ${total} checks${failed > 0 ? `, ${failed} failed` : ''}: ${running}`,
  }));
  try {
    await checkOutputs([outputs.report, outputs.junit]);
    removeWorkDirectory = await makeWorkDirectory(options.workDirectory);
    const workDirectory = await ownWorkDirectory(options.workDirectory);
    const placed = { ...options, workDirectory };
    const report = await runSuite(checks, placed, {
      signal: interrupt.signal,
      onStart: (check) => {
        running = check.id;
        line.clear();
        if (outputs.verbose) process.stderr.write(`${check.id} ...\n`);
      },
      onResult: (result) => {
        ended += 1;
        if (result.result === 'failed') failed += 1;
        line.clear();
        if (outputs.verbose) logResult(result);
      },
    });
    line.end();
    await write(report, outputs);
    if (interrupt.signal.aborted) return ExitCode.INTERRUPTED;
    return countOf(report, 'failed') === 0 ? ExitCode.OK : ExitCode.FAILURE;
  } catch (error) {
    complain(messageOf(error));
    return ExitCode.FAILURE;
  } finally {
    line.end();
    await removeWorkDirectory();
    removeHandlers();
  }
}

/** The directory's path without links. Root writes to volumes published in it, so no other user may replace them. */
async function ownWorkDirectory(given: string): Promise<string> {
  const { path, others } = await followWay(given);
  const found = others ?? (await othersIn(path));
  if (found === null) return path;
  throw new Error(
    `volumes cannot be published in ${given}: ${found}; give a directory that only you can write to with --work-directory`,
  );
}

async function write(report: Report, { json, report: file, junit }: ConformanceOptions): Promise<void> {
  if (json) process.stdout.write(formatJson(report));
  else if (junit === '-') process.stdout.write(formatJunit(report));
  else process.stdout.write(harmless(formatTable(report)));
  if (file !== undefined) await writeOutput(file, formatJson(report));
  if (junit !== undefined && junit !== '-') await writeOutput(junit, formatJunit(report));
}

function listOf(checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ id }) => id.length));
  const lines = checks.map(
    ({ id, level, section, title }) => `${id.padEnd(width)}  ${level.padEnd(6)}  ${title} [${section}]\n`,
  );
  return lines.join('');
}

function logResult({ id, result, detail, seconds }: CheckResult): void {
  const why = detail === null ? '' : `: ${detail}`;
  process.stderr.write(`${id} ${result} (${seconds.toFixed(2)} s)${why}\n`);
}

function addPattern(value: string, before: string[]): string[] {
  return [...before, value];
}
