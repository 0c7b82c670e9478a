/**
 * Rows delta-*: the whole GetMetadataDelta of two fragmented snapshots, beside a C++ program that
 * does the two FIEMAP scans and the merge and nothing else, and beside one that reads and compares
 * both files, from the page cache and from the disk. All have to find the same ranges every time.
 */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { type CompiledPeer, compilePeer, isMissing } from '../../src/bench/peers.js';
import type { Row, Side } from '../../src/bench/row.js';
import { readRanges } from '../../src/bench/streams/wire-reader.js';
import type { Settings } from '../../src/bench/suite.js';
import { makeSnapshotPair, type SnapshotPair } from './fragmented-volume.js';
import { orderOf } from './order.js';
import { RawClient } from './raw-client.js';

const WALL_TARGET = 1.25;
const MIN_EXTENTS = 300_000;
const run = promisify(execFile);

interface Found {
  ranges: number;
  bytes: number;
  ms: number;
}

interface Contender {
  label: string;
  once(): Promise<Found>;
  found: Found[];
}

export async function deltaRows(settings: Settings): Promise<Row[]> {
  if (process.getuid?.() !== 0) throw new Error('delta needs root: loop devices and mounts');
  const pair = await makeSnapshotPair(settings);
  const extents = [await countExtents(pair.basePath), await countExtents(pair.targetPath)];
  settings.say(`extents: base ${extents[0]}, target ${extents[1]}`);
  if (extents.some((count) => count < MIN_EXTENTS)) throw new Error('too few extents to measure');
  const { ours, scan, compare } = contendersFor(pair, settings);
  // One unmeasured round warms the page cache, the extent maps and the plugin.
  for (const contender of [ours, scan, compare]) await contender.once();
  await measure([ours, scan, compare], settings, async () => undefined);
  const warm = { ours: sideOf(ours), scan: sideOf(scan), compare: sideOf(compare) };
  const listed = assertAgreed([ours, scan, compare]);
  const facts = {
    'base extents': extents[0] ?? 0,
    'target extents': extents[1] ?? 0,
    'blocks rewritten': pair.changedBlocks,
    ranges: listed.ranges,
    bytes: listed.bytes,
  };
  if (!settings.cold) return warmRows(warm, facts);
  await measure([ours, compare], settings, dropCaches);
  assertAgreed([ours, compare], listed);
  return [...warmRows(warm, facts), coldRow(sideOf(ours), sideOf(compare), facts)];
}

function contendersFor(
  pair: SnapshotPair,
  settings: Settings,
): Record<'ours' | 'scan' | 'compare', Contender> {
  const client = new RawClient(pair.plugin.endpoint);
  settings.cleanup.defer(() => client.close());
  const program = (name: CompiledPeer) => () => runProgram(name, pair.basePath, pair.targetPath);
  return {
    ours: { label: 'RPC', once: () => callDelta(client, pair), found: [] },
    scan: { label: 'bare scan', once: program('bare_delta'), found: [] },
    compare: { label: 'byte comparison', once: program('bare_compare'), found: [] },
  };
}

async function measure(
  contenders: readonly Contender[],
  settings: Settings,
  prepare: () => Promise<void>,
): Promise<void> {
  for (const contender of contenders) contender.found = [];
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const contender of orderOf(contenders, round)) {
      await prepare();
      contender.found.push(await contender.once());
    }
    const last = contenders.map(({ label, found }) => `${label} ${found.at(-1)?.ms.toFixed(0)} ms`);
    settings.say(`round ${round + 1}: ${last.join(', ')}`);
  }
}

/** What all of them found, in all rounds. Throws if it is not the same. */
function assertAgreed(contenders: readonly Contender[], expected?: Found): Found {
  const first = expected ?? contenders[0]?.found[0];
  if (first === undefined) throw new Error('nothing was measured');
  for (const { label, found } of contenders) {
    for (const { ranges, bytes } of found) {
      if (ranges === first.ranges && bytes === first.bytes) continue;
      throw new Error(
        `${label} found ${ranges} ranges of ${bytes} bytes instead of ${first.ranges} of ${first.bytes}`,
      );
    }
  }
  return first;
}

/** Page cache, inodes and with them the extent maps in memory: of the whole machine. */
async function dropCaches(): Promise<void> {
  await run('sync');
  await writeFile('/proc/sys/vm/drop_caches', '3');
}

/** From the call until the client has received and decoded the last range. */
async function callDelta(client: RawClient, pair: SnapshotPair): Promise<Found> {
  let ranges = 0;
  let bytes = 0;
  const onMessage = (message: Buffer): void =>
    readRanges(message, (_offset, size) => {
      ranges += 1;
      bytes += size;
    });
  const started = performance.now();
  await client.read(
    'GetMetadataDelta',
    { base_snapshot_id: pair.baseId, target_snapshot_id: pair.targetId },
    { onMessage },
  );
  return { ranges, bytes, ms: performance.now() - started };
}

/** The program's own clock counts, so the start of its process is not held against it. */
async function runProgram(name: CompiledPeer, base: string, target: string): Promise<Found> {
  const peer = await compilePeer(name);
  if (isMissing(peer)) throw new Error(peer.missing);
  const { stdout } = await run(peer.program, [base, target]);
  const figure = (key: string): number =>
    Number(new RegExp(`\\b${key} ([0-9.]+)`).exec(stdout)?.[1]);
  const found = { ranges: figure('ranges'), bytes: figure('bytes'), ms: figure('ms') };
  if (Object.values(found).some(Number.isNaN)) throw new Error(`${name} printed: ${stdout}`);
  return found;
}

/** As FIEMAP counts them. */
async function countExtents(path: string): Promise<number> {
  const { stdout } = await run('filefrag', [path]);
  return Number(/: (\d+) extents? found/.exec(stdout)?.[1]);
}

function warmRows(warm: Record<'ours' | 'scan' | 'compare', Side>, facts: Row['facts']): Row[] {
  const quotients = warm.ours.rounds.map(
    (ms, round) => ms / (warm.scan.rounds[round] ?? Number.NaN),
  );
  return [
    {
      name: 'delta-wall',
      measures:
        'wall time of GetMetadataDelta, client included, beside two FIEMAP scans and the merge',
      ours: warm.ours,
      peer: warm.scan,
      target: {
        label: 'ratio',
        unit: '',
        rounds: quotients,
        judged: 'median',
        atMost: WALL_TARGET,
      },
      facts,
    },
    {
      name: 'delta-compare',
      measures: 'the same, beside reading and comparing both files from the page cache',
      ours: warm.ours,
      peer: warm.compare,
      target: null,
      facts,
    },
  ];
}

function coldRow(ours: Side, compare: Side, facts: Row['facts']): Row {
  return {
    name: 'delta-compare-cold',
    measures: 'the same, with the caches of the whole machine emptied before each',
    ours,
    peer: compare,
    target: null,
    facts,
  };
}

function sideOf({ label, found }: Contender): Side {
  return { label, unit: 'ms', rounds: found.map(({ ms }) => ms) };
}
