/** The benchmark's command line: runs the rows, prints them as a table, writes them as JSON. */
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { parseArgs } from 'node:util';
import { Cleanup } from '../../src/bench/cleanup.js';
import { describeMachine } from '../../src/bench/machine.js';
import { Random } from '../../src/bench/random.js';
import { table } from '../../src/bench/report/table.js';
import { type Row, verdict } from '../../src/bench/row.js';
import { spread } from '../../src/bench/statistics.js';
import type { Settings } from '../../src/bench/suite.js';
import { deltaRows } from './delta-row.js';
import { thinRows } from './thin-rows.js';

const HELP = `npm run bench -- [NAME...] [--rounds N] [--cold] [--json FILE]

  NAME           stream-cpu, router-cpu, delta (needs root), rss, hostile or thin (needs root and thin_delta);
                 also as --only NAME; without any, all of them
  --rounds N     rounds of every row, at least 5 (default 5)
  --cold         delta also from the disk: empties the caches of the machine, takes minutes
  --json FILE    also write every figure of every round there

Ratios within one run mean something; absolute figures depend on the machine and on what else it
does. docs/performance.md says what each row measures. Exits 0 whatever the figures are.
`;

const BENCHES: Readonly<Record<string, (settings: Settings) => Promise<Row[]>>> = {
  delta: deltaRows,
  thin: thinRows,
};
const MIN_ROUNDS = 5;

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      only: { type: 'string', multiple: true },
      rounds: { type: 'string' },
      cold: { type: 'boolean' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help === true) {
    process.stdout.write(HELP);
    return;
  }
  const asked = [...positionals, ...(values.only ?? [])];
  const names = asked.length === 0 ? Object.keys(BENCHES) : asked;
  const unknown = names.find((name) => BENCHES[name] === undefined);
  if (unknown !== undefined) throw new Error(`there is no benchmark '${unknown}'`);
  const rounds = Number(values.rounds ?? MIN_ROUNDS);
  if (!Number.isInteger(rounds) || rounds < MIN_ROUNDS) {
    throw new Error(
      `--rounds is '${values.rounds}': it must be a number of at least ${MIN_ROUNDS}`,
    );
  }
  await bench(names, { rounds, cold: values.cold === true }, values.json ?? null);
}

type Options = Pick<Settings, 'rounds' | 'cold'>;

async function bench(names: string[], options: Options, jsonFile: string | null): Promise<void> {
  const facts = describeMachine(tmpdir());
  console.log(
    `kernel ${facts.kernel}, ${facts.cpus} CPUs (${facts.cpuModel}), Node.js ${facts.node}, ` +
      `load ${facts.loadBefore}, ${options.rounds} rounds`,
  );
  const rows: Row[] = [];
  for (const name of names) rows.push(...(await runOne(name, options)));
  console.log(`\n${table(rows)}\n`);
  for (const row of rows) console.log(`${row.name}: ${row.measures}\n  ${factsOf(row)}`);
  if (jsonFile !== null) writeFileSync(jsonFile, JSON.stringify({ machine: facts, rows }));
  const missed = rows.filter((row) => verdict(row) === 'missed').map((row) => row.name);
  if (missed.length > 0) console.log(`\ntargets NOT met: ${missed.join(', ')}`);
}

async function runOne(name: string, options: Options): Promise<Row[]> {
  const run = BENCHES[name];
  if (run === undefined) return [];
  const cleanup = new Cleanup();
  const say = (text: string): void => console.log(`[${name}] ${text}`);
  try {
    return await cleanup.guard(
      run({
        ...options,
        size: 'full',
        endpoint: null,
        parameters: {},
        volumeBytes: null,
        random: new Random(Date.now()),
        cleanup,
        say,
      }),
      new AbortController().signal,
    );
  } finally {
    await cleanup.runAll();
  }
}

function factsOf(row: Row): string {
  const { median, min, max } = spread(row.ours.rounds);
  const ours = `ours ${median.toFixed(3)} (${min.toFixed(3)}-${max.toFixed(3)}) ${row.ours.unit}`;
  return [ours, ...Object.entries(row.facts).map(([key, value]) => `${key} ${value}`)].join(', ');
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
