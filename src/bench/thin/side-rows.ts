/** Rows thin-* that hold the scan against something other than thin_delta's time. */
import { spawnSync } from 'node:child_process';
import { packagePath } from '../../src/base/package-root.js';
import type { Row } from '../../src/bench/row.js';
import { orderOf } from './order.js';
import { BASE_DEVICE, TARGET_DEVICE } from './thin-cases.js';
import type { PeakMemory } from './thin-memory.js';
import type { NodeCount } from './thin-nodes.js';
import { timeProcess, timeThinDelta } from './thin-peer.js';
import type { Scanned } from './thin-scan.js';

const PEAK_TARGET_MIB = 96;
const NODES_TARGET = 1.001;

/** Where few nodes differ, the two above both trees weigh more: so it is asked of one case only. */
export function nodesRow(scanned: Scanned, counted: NodeCount): Row {
  const rounds = [scanned.nodes / counted.differing];
  return {
    name: 'thin-nodes',
    measures: 'blocks of metadata read, beside the nodes that only one of the two trees has',
    ours: { label: 'read', unit: 'nodes', rounds: [scanned.nodes] },
    peer: { label: 'in one tree', unit: 'nodes', rounds: [counted.differing] },
    target: { label: 'ratio', unit: '', rounds, judged: 'median', atMost: NODES_TARGET },
    facts: { 'nodes of both trees': counted.all },
  };
}

/** A process a round that does one scan and nothing else. */
export function peakRow(name: string, where: string, metadata: string, rounds: number): Row {
  const script = packagePath('.test-build/test/bench/thin-memory.js');
  const found = Array.from({ length: rounds }, () => {
    const run = spawnSync(process.execPath, [script, metadata], { encoding: 'utf8' });
    if (run.status !== 0) throw new Error(`${script} ended with ${run.status}: ${run.stderr}`);
    return JSON.parse(run.stdout) as PeakMemory;
  });
  const peaks = found.map(({ peakMiB }) => peakMiB);
  return {
    name,
    measures: `highest resident memory of a process that does one scan, ${where}`,
    ours: { label: 'after', unit: 'MiB', rounds: peaks },
    peer: { label: 'before', unit: 'MiB', rounds: found.map(({ beforeMiB }) => beforeMiB) },
    target: { label: 'peak', unit: ' MiB', rounds: peaks, judged: 'max', atMost: PEAK_TARGET_MIB },
    facts: {},
  };
}

/** From starting `blockdelta thin-delta` to its end, with Node.js and all, beside thin_delta whole. */
export async function processRow(metadata: string, rounds: number): Promise<Row> {
  const devices = ['--base', String(BASE_DEVICE), '--target', String(TARGET_DEVICE)];
  const command = [packagePath('.test-build/src/main.js'), 'thin-delta', '--format', 'csv'];
  const words = [...command, ...devices, '--metadata', metadata];
  const sides = { ours: [] as number[], peer: [] as number[] };
  const contenders = {
    ours: () => timeProcess(process.execPath, words),
    peer: () => timeThinDelta(metadata),
  };
  for (let round = 0; round < rounds; round += 1) {
    for (const side of orderOf(['ours', 'peer'] as const, round)) {
      sides[side].push(await contenders[side]());
    }
  }
  return {
    name: 'thin-process',
    measures: 'whole processes with their output discarded, 1 % random in memory',
    ours: { label: 'blockdelta', unit: 'ms', rounds: sides.ours },
    peer: { label: 'thin_delta', unit: 'ms', rounds: sides.peer },
    target: null,
    facts: {},
  };
}
