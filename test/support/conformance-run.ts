/** The conformance suite against a plugin of a test, in this process. */
import assert from 'node:assert/strict';
import { CHECKS } from '../../src/tools/conformance/all-checks.js';
import type { Check } from '../../src/tools/conformance/check.js';
import type { SuiteOptions } from '../../src/tools/conformance/options.js';
import type { Report, Result } from '../../src/tools/conformance/report.js';
import { formatTable } from '../../src/tools/conformance/report-table.js';
import { runSuite } from '../../src/tools/conformance/runner.js';
import type { AnyPlugin } from './plugin.js';
import { seededRandom } from './random.js';
import type { RunningPluginBy } from './running-plugin.js';

/** Checks that need mounted volumes. */
export const MOUNT_ONLY = ['delta.content-mount', 'allocated.content-mount'] as const;

/** The museum, which has tests of its own. */
export const LOSSES = CHECKS.map(({ id }) => id).filter((id) => id.startsWith('loss.'));

/** Checks that need raw block volumes. */
export const BLOCK_ONLY = [
  ...LOSSES,
  'delta.content',
  'delta.chain',
  'allocated.content',
  'delta.resized',
  'delta.restored',
  'delta.cloned',
  'groups.restore',
  'groups.delta',
  'groups.write-order',
];

/** What a run needs at least. A seed that is not given is that of a random test. */
export function suiteOptions(
  endpoint: string,
  workDirectory: string,
  options: Partial<SuiteOptions> = {},
): SuiteOptions {
  const socketPath = endpoint.slice('unix://'.length);
  return {
    socketPath,
    controllerSocketPath: socketPath,
    parameters: {},
    snapshotParameters: {},
    secrets: {},
    access: ['block', 'mount'],
    mountFileSystem: 'ext4',
    volumeSizeBytes: null,
    workDirectory,
    only: [],
    skip: [],
    timeoutMs: 60_000,
    ...options,
    seed: options.seed ?? seededRandom('conformance').seed,
  };
}

/** Every check against the running plugin: none fails, and these and no others are skipped. */
export async function assertConforms(
  running: RunningPluginBy<AnyPlugin>,
  options: Partial<SuiteOptions>,
  skipped: readonly string[],
  checks: readonly Check[] = CHECKS,
): Promise<void> {
  const suite = suiteOptions(running.plugin.endpoint, running.workspace.path('conformance'), options);
  const report = await runSuite(checks, suite);
  assert.deepEqual(idsOf(report, 'failed'), [], formatTable(report));
  assert.deepEqual(idsOf(report, 'skipped'), [...skipped].sort(), formatTable(report));
  for (const { id, seconds } of report.results.filter((entry) => entry.seconds > 1))
    console.log(`# ${id}: ${seconds.toFixed(1)} s`);
  console.log(`# ${idsOf(report, 'passed').length} checks in ${report.seconds.toFixed(1)} s`);
  const figures = report.results.flatMap((result) =>
    result.figures.map(({ name, value, unit }) => `${result.id}: ${name}: ${value} ${unit}`),
  );
  for (const figure of figures) console.log(`# ${figure}`);
}

function idsOf(report: Report, result: Result): string[] {
  return report.results
    .filter((entry) => entry.result === result)
    .map(({ id }) => id)
    .sort();
}
