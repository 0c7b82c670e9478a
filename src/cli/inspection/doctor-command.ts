/** `blockdelta doctor`: examines the node and the plugin, and prints each problem with its remedy. */
import { join } from 'node:path';
import type { Command } from 'commander';
import { messageOf } from '../../base/errors.js';
import { cell } from '../../base/plain-text.js';
import { catalogueOwner } from '../../driver/catalogue/lock.js';
import {
  type Check,
  type CheckResult,
  DOCTOR_CHECKS,
  type DoctorContext,
  type Finding,
} from '../../driver/inspection/doctor-checks.js';
import { inspectNode, type NodeView, nodeSettings } from '../../driver/inspection/node-view.js';
import { parseClientEndpoint } from '../../tools/client/endpoint.js';
import { ExitCode } from '../exit-codes.js';
import { print, runToExitCode } from '../output.js';
import { parsePath } from '../paths.js';
import { STATE_HELP } from './list-commands.js';
import { checkSocket } from './socket-check.js';
import { formatJson } from './tables.js';

interface DoctorOptions {
  stateDir?: string;
  endpoint?: string;
  json: boolean;
}

const HELP = `
Run it as root, with the environment and where the plugin runs. It changes nothing.

Exit codes:
  0   healthy
  1   there are findings, or the node could not be examined
  2   wrong usage
  7   there are no findings, but something that the settings use was not examined`;

export function addDoctorCommand(program: Command): void {
  program
    .command('doctor')
    .description('examine this node and its plugin; each finding comes with its remedy')
    .option('--state-dir <directory>', STATE_HELP, parsePath)
    .option('--endpoint <endpoint>', "the plugin's socket, unix:///path (default: CSI_ENDPOINT)")
    .option('--json', 'print JSON', false)
    .addHelpText('after', HELP)
    .action(async (options: DoctorOptions) => {
      let outcome: ExitCode = ExitCode.OK;
      const code = await runToExitCode(async () => {
        const results = await examine(options);
        if (results.some(({ skipped }) => skipped)) outcome = ExitCode.NOT_EXAMINED;
        if (results.some(({ findings }) => findings.length > 0)) outcome = ExitCode.FAILURE;
        await print(options.json ? formatJson(results) : formatResults(results));
      });
      process.exitCode = code === ExitCode.OK ? outcome : code;
    });
}

const SOCKET_CHECK: Check = { name: 'socket', run: checkSocket };

type Named = CheckResult & { check: string };

async function examine({ stateDir, endpoint }: DoctorOptions): Promise<Named[]> {
  const settings = nodeSettings(stateDir);
  const given = endpoint ?? process.env['CSI_ENDPOINT'] ?? '';
  let node: NodeView | null = null;
  let catalogueProblem: string | null = null;
  try {
    node = await inspectNode(settings);
  } catch (thrown) {
    catalogueProblem = messageOf(thrown);
  }
  const catalogue = join(settings.stateDirectory, 'catalogue.sqlite');
  const context: DoctorContext = {
    env: process.env,
    stateDirectory: settings.stateDirectory,
    socketPath: given === '' ? null : parseClientEndpoint(given),
    usesThin: settings.pools.some(({ kind }) => kind === 'thin'),
    plugin: await catalogueOwner(catalogue).catch(() => null),
    node,
    catalogueProblem,
  };
  const results: Named[] = [];
  for (const { name: check, run } of [...DOCTOR_CHECKS, SOCKET_CHECK]) {
    results.push({ check, ...(await attempted(() => run(context))) });
  }
  return results;
}

/** A check that throws becomes a finding, and the other checks still run. */
async function attempted(run: () => Promise<CheckResult> | CheckResult): Promise<CheckResult> {
  try {
    return await run();
  } catch (thrown) {
    const found: Finding = {
      found: `this could not be examined: ${messageOf(thrown)}`,
      remedy: 'run the command as root, where the plugin runs',
    };
    return { detail: 'failed', findings: [found] };
  }
}

function formatResults(results: readonly Named[]): string {
  const width = Math.max(...results.map(({ check }) => check.length));
  const lines = results.map(({ check, detail, skipped, findings: found }) => {
    const state = found.length > 0 ? 'FINDING' : skipped ? 'skipped' : 'ok     ';
    const head = `${state}  ${check.padEnd(width)}  ${cell(detail)}\n`;
    const each = found.map((one) => `           - ${cell(one.found)}\n             remedy: ${cell(one.remedy)}\n`);
    return head + each.join('');
  });
  const findings = results.reduce((sum, result) => sum + result.findings.length, 0);
  const skipped = results.filter((result) => result.skipped).length;
  const found = findings === 0 ? 'no findings' : `${findings} findings`;
  return `${lines.join('')}${findings + skipped === 0 ? 'healthy' : `${found}, ${skipped} checks skipped`}\n`;
}
