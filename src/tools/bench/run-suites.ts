/** Runs suites one after the other and collects what they found. */
import { messageOf } from '../../base/errors.js';
import { untilAborted } from '../../base/timeout.js';
import { Cleanup } from '../client/cleanup.js';
import { Random } from '../random.js';
import { afterRun, describeMachine } from './machine.js';
import { type Document, reported, SCHEMA, type SuiteResult } from './report/document.js';
import { type Curve, missingSide, type Row, ratios, type SpeedRow, targetOf } from './row.js';
import type { Settings, Suite } from './suite.js';

export interface RunOptions
  extends Pick<
    Settings,
    | 'program'
    | 'rounds'
    | 'size'
    | 'socketPath'
    | 'reach'
    | 'parameters'
    | 'snapshotParameters'
    | 'workDirectory'
    | 'volumeBytes'
  > {
  seed: number;
  curves: boolean;
  /** The speed table. Its rows come first, in its order. Rows of suites that do not run are omitted, unless `wholeTable`. */
  table: readonly SpeedRow[];
  wholeTable: boolean;
  say(line: string): void;
}

/** A suite that fails is reported as failed, and the other suites still run. An interrupt ends the run. */
export async function runSuites(suites: readonly Suite[], options: RunOptions, signal: AbortSignal): Promise<Document> {
  const started = performance.now();
  const machine = await describeMachine(options.workDirectory);
  const random = new Random(options.seed);
  const results: SuiteResult[] = [];
  const rows: Row[] = [];
  const curves: Curve[] = [];
  for (const suite of suites) {
    const suiteStarted = performance.now();
    let failure: string | null = null;
    try {
      await runSuite(suite, { ...options, random }, signal, { rows, curves });
    } catch (error) {
      signal.throwIfAborted();
      failure = messageOf(error);
      options.say(`[${suite.name}] failed: ${failure}`);
    }
    const seconds = (performance.now() - suiteStarted) / 1000;
    results.push({ name: suite.name, describes: suite.describes, seconds, failure });
  }
  return {
    schema: SCHEMA,
    machine: afterRun(machine),
    seed: options.seed,
    rounds: options.rounds,
    size: options.size,
    volumeBytes: options.volumeBytes,
    seconds: (performance.now() - started) / 1000,
    suites: results,
    rows: inOrder(rows, results, options).map(reported),
    curves,
  };
}

/** Adds to `found`, which keeps the rows if the curves fail. */
async function runSuite(
  suite: Suite,
  options: RunOptions & Pick<Settings, 'random'>,
  signal: AbortSignal,
  found: { rows: Row[]; curves: Curve[] },
): Promise<void> {
  const cleanup = new Cleanup();
  const say = (text: string): void => options.say(`[${suite.name}] ${text}`);
  const settings: Settings = { ...options, cleanup, say };
  try {
    found.rows.push(...(await untilAborted(suite.run(settings), signal)));
    const measure = options.curves ? suite.curves : undefined;
    if (measure !== undefined) found.curves.push(...(await untilAborted(measure(settings), signal)));
  } finally {
    await cleanup.runAll();
  }
}

/** Puts the rows of the speed table first, in the table's order, including rows that were not measured. */
function inOrder(
  rows: readonly Row[],
  results: readonly SuiteResult[],
  { table, wholeTable }: Pick<RunOptions, 'table' | 'wholeTable'>,
): Row[] {
  const byName = new Map(rows.map((row) => [row.name, row]));
  const first = table.flatMap((wanted): Row[] => {
    const row = byName.get(wanted.name);
    if (row !== undefined) return [{ ...row, target: row.target ?? targetOf(wanted, ratios(row)) }];
    const suite = results.find(({ name }) => name === wanted.suite);
    if (suite === undefined && !wholeTable) return [];
    return [unmeasured(wanted, whyNot(wanted.suite, suite))];
  });
  const named = new Set(table.map(({ name }) => name));
  return [...first, ...rows.filter(({ name }) => !named.has(name))];
}

function whyNot(name: string, suite: SuiteResult | undefined): string {
  if (suite === undefined) return `the suite ${name} did not run`;
  if (suite.failure === null) return `the suite ${name} did not measure it`;
  return `the suite ${name} failed: ${suite.failure}`;
}

function unmeasured(wanted: SpeedRow, why: string): Row {
  return {
    name: wanted.name,
    measures: 'a row of the speed table',
    ours: missingSide('ours', '', why),
    peer: missingSide('peer', '', why),
    target: targetOf(wanted, []),
    facts: {},
  };
}
