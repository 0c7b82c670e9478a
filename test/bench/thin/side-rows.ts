/** Rows thin-* that hold the scan against something other than thin_delta's time. */
import { fileURLToPath } from 'node:url';
import type { Row } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { BASE_DEVICE, type Metadata, TARGET_DEVICE } from './metadata.js';
import type { NodeCount } from './nodes.js';
import type { PeakMemory } from './peak-process.js';
import type { Scanned } from './scan.js';
import { timeProcess, timeThinDelta } from './thin-delta.js';

const PEAK_MIB = 96;
const NODES_RATIO = 1.001;

/** Of the build that runs, wherever that is. */
const besideThis = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export function nodesRow(scanned: Scanned, counted: NodeCount): Row {
  const rounds = [scanned.nodes / counted.differing];
  return {
    name: 'thin-nodes',
    measures: 'blocks of metadata read, beside the nodes that only one of the two trees has',
    ours: { label: 'read', unit: 'nodes', rounds: [scanned.nodes] },
    peer: { label: 'in one tree', unit: 'nodes', rounds: [counted.differing] },
    target: { label: 'ratio', unit: '', rounds, judged: 'median', atMost: NODES_RATIO },
    facts: { 'nodes of both trees': counted.all },
  };
}

/** A process a round that does one scan and nothing else. */
export async function peakRow(
  { rounds }: Settings,
  name: string,
  where: string,
  { path, volumeBytes }: Metadata,
): Promise<Row> {
  const script = besideThis('peak-process.js');
  const found: PeakMemory[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const args = [script, path, String(volumeBytes)];
    const { stdout } = await run(process.execPath, args, { check: true });
    found.push(JSON.parse(stdout) as PeakMemory);
  }
  const peaks = found.map(({ peakMiB }) => peakMiB);
  return {
    name,
    measures: `highest resident memory of a process that does one scan, ${where}`,
    ours: { label: 'after', unit: 'MiB', rounds: peaks },
    peer: { label: 'before', unit: 'MiB', rounds: found.map(({ beforeMiB }) => beforeMiB) },
    target: { label: 'peak', unit: ' MiB', rounds: peaks, judged: 'max', atMost: PEAK_MIB },
    facts: {},
  };
}

/** From starting `blockdelta thin-delta` to its end, with Node.js and all, beside thin_delta whole. */
export async function processRow(settings: Settings, { path }: Metadata): Promise<Row> {
  const devices = ['--base', String(BASE_DEVICE), '--target', String(TARGET_DEVICE)];
  const command = [besideThis('../../../src/main.js'), 'thin-delta', '--format', 'csv'];
  const ours = (): Promise<number> => timeProcess(process.execPath, [...command, ...devices, '--metadata', path]);
  const theirs = (): Promise<number> => timeThinDelta(path);
  const found = await shuffledRounds(settings, [ours, theirs], (contender) => contender());
  return {
    name: 'thin-process',
    measures: 'whole processes with their output discarded, 1 % random in memory',
    ours: { label: 'blockdelta', unit: 'ms', rounds: found.get(ours) ?? [] },
    peer: { label: 'thin_delta', unit: 'ms', rounds: found.get(theirs) ?? [] },
    facts: {},
  };
}
