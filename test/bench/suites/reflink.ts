/**
 * Suite reflink: whole deltas of fragmented volumes through the plugin's socket, with and without stored change lists,
 * beside programs that only scan both extent maps and merge them, or only compare bytes.
 */

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readAllocated, readDelta } from '../../../src/tools/bench/list-reader.js';
import { BLOCK, type Volume, Volumes } from '../../../src/tools/bench/measured-volumes.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool, type PoolKind, requireRoot } from '../../../src/tools/bench/pool.js';
import { type Curve, type CurveLine, missingSide, type Row, type Side } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { listsTo } from '../../support/stored-lists.js';
import { type CompiledPeer, compilePeer } from '../peers.js';
import { ProcessMeter } from '../process-meter.js';
import { findProgram, isMissing } from '../programs.js';
import { sizeOfExtents, writeBlocks, writeExtents } from '../storage/fragments.js';
import { backingFileOf, snapshotFile } from '../storage/pool-files.js';

const SIZES = {
  // A snapshot of 500,000 extents takes seconds, and the chain needs 31.
  full: {
    extents: 500_000,
    chain: { snapshots: 30, extents: 100_000 },
    hotExtents: 32_768,
    curve: [10_000, 30_000, 100_000, 300_000],
  },
  tiny: {
    extents: 1000,
    chain: { snapshots: 3, extents: 1000 },
    hotExtents: 500,
    curve: [200, 1000],
  },
} as const;
const CHANGED = 0.01;
/** Of 500,000 extents. */
const LISTS = 4;
const LIST_POLL_MS = 20;
const LIST_TIMEOUT_MS = 120_000;

/** What people ask for the extents of a file. */
const EXTENT_TOOLS = [
  {
    name: 'reflink-allocated-xfs-io',
    program: 'xfs_io',
    argumentsFor: (file: string) => ['-r', '-c', 'fiemap', file],
  },
  {
    name: 'reflink-allocated-qemu-img',
    program: 'qemu-img',
    argumentsFor: (file: string) => ['map', '--output=json', '-f', 'raw', file],
  },
] as const;

export const suite: Suite = {
  name: 'reflink',
  describes: 'deltas of fragmented volumes on XFS and btrfs, with and without stored lists (root)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    const { extents, chain, hotExtents } = SIZES[settings.size];
    const direct = await Bed.make(settings, 'xfs', 'off');
    const pair = await direct.chain(extents, [CHANGED]);
    const rows = [
      await direct.row('reflink-delta-direct', pair, 'bare_delta'),
      ...(await direct.extentToolRows(pair.at(-1) ?? '')),
    ];
    await direct.end();
    const listed = await Bed.make(settings, 'xfs', 'on');
    const steps = Array.from({ length: LISTS }, () => CHANGED);
    const short = await listed.chain(extents, steps);
    rows.push(await listed.row('reflink-delta-lists', short.slice(-2), 'bare_delta'), await listed.listRow(short));
    await listed.removeAll();
    const shares = Array.from({ length: chain.snapshots }, () => CHANGED / chain.snapshots);
    const long = await listed.chain(chain.extents, shares);
    rows.push(await listed.row('reflink-delta-chain', long, 'bare_delta'));
    await listed.removeAll();
    const hot = await listed.chain(hotExtents, [1]);
    rows.push(await listed.row('reflink-delta-hot', hot, 'bare_compare'));
    await listed.end();
    const btrfs = await Bed.make(settings, 'btrfs', 'off');
    rows.push(await btrfs.row('reflink-delta-btrfs', await btrfs.chain(extents, [CHANGED]), 'bare_delta'));
    await btrfs.end();
    return rows;
  },

  async curves(settings: Settings): Promise<Curve[]> {
    requireRoot();
    return [await byExtents(settings)];
  },
};

async function byExtents(settings: Settings): Promise<Curve> {
  const stored: CurveLine = { label: 'lists stored', points: [] };
  const direct: CurveLine = { label: 'nothing stored', points: [] };
  const bare: CurveLine = { label: 'two bare FIEMAP scans', points: [] };
  for (const lists of ['on', 'off'] as const) {
    const bed = await Bed.make(settings, 'xfs', lists);
    for (const extents of SIZES[settings.size].curve) {
      const { ours, peer } = await bed.measure(await bed.chain(extents, [CHANGED]), 'bare_delta');
      (lists === 'on' ? stored : direct).points.push({ x: extents, rounds: ours });
      if (lists === 'off' && peer.every(Number.isFinite)) {
        bare.points.push({ x: extents, rounds: peer });
      }
      await bed.removeAll();
    }
    await bed.end();
  }
  return {
    name: 'reflink-extents',
    title: 'Delta by the extents of the volume, 1 % of them changed',
    x: 'extents',
    y: 'time of GetMetadataDelta (ms)',
    lines: [stored, direct, bare].filter(({ points }) => points.length > 0),
  };
}

const MEASURES = {
  'reflink-delta-lists': 'delta of a snapshot and the one before it, lists stored',
  'reflink-delta-chain': 'delta of the ends of a chain of snapshots, lists stored',
  'reflink-delta-hot': 'delta of a small volume of which every second block changed, lists stored',
  'reflink-delta-direct': 'delta on XFS, nothing stored',
  'reflink-delta-btrfs': 'delta on btrfs, nothing stored',
  'reflink-list-cpu': "CPU of the plugin from CreateSnapshot's answer to the stored list",
} as const;

/** A pool, a plugin on it, and volumes of it. */
class Bed {
  readonly #listCpuMs: number[] = [];
  private readonly meter: ProcessMeter;

  private constructor(
    private readonly settings: Settings,
    private readonly pool: string,
    private readonly plugin: PluginProcess,
    private readonly volumes: Volumes,
    private readonly lists: 'on' | 'off',
  ) {
    this.meter = new ProcessMeter(plugin.pid);
  }

  static async make(settings: Settings, kind: PoolKind, lists: 'on' | 'off'): Promise<Bed> {
    const workspace = Workspace.make(settings, `reflink-${kind}-${lists}`);
    const pool = await makePool(workspace, kind);
    const plugin = await PluginProcess.start(settings, workspace, {
      env: { BLOCKDELTA_POOLS: `bench=${pool}`, BLOCKDELTA_CHANGE_LISTS: lists },
    });
    const volumes = new Volumes(settings, plugin.driver, workspace);
    return new Bed(settings, pool, plugin, volumes, lists);
  }

  /** Snapshots, oldest first, with a share of the written blocks written anew before each but the first. */
  async chain(extents: number, shares: readonly number[]): Promise<string[]> {
    this.settings.say(`making ${extents} extents and ${shares.length + 1} snapshots in ${this.pool}`);
    const volume = await this.volumes.create(BLOCK, sizeOfExtents(extents));
    await this.volumes.bringUp(volume);
    const file = backingFileOf(volume.targetPath);
    await writeExtents(file, extents);
    // There is no change list of a volume's first snapshot.
    const snapshots = [await this.volumes.snapshot(volume)];
    const { random } = this.settings;
    for (const share of shares) {
      const changed = Math.ceil(extents * share);
      const every = extents / changed;
      const first = random.below(Math.max(1, Math.floor(every)));
      await writeBlocks(file, changed, (index) => 2 * (Math.floor(index * every) + first));
      snapshots.push(await this.#snapshot(volume));
    }
    return snapshots;
  }

  /** Waits for the list, if there will be one. */
  async #snapshot(volume: Volume): Promise<string> {
    const id = await this.volumes.snapshot(volume);
    if (this.lists === 'off') return id;
    const before = await this.meter.cpuMs();
    const deadline = Date.now() + LIST_TIMEOUT_MS;
    while (listsTo(join(this.pool, 'lists'), id).length === 0) {
      if (Date.now() > deadline) {
        throw new Error(`the plugin stored no change list of ${id} within ${LIST_TIMEOUT_MS} ms`);
      }
      await delay(LIST_POLL_MS);
    }
    this.#listCpuMs.push((await this.meter.cpuMs()) - before);
    return id;
  }

  async row(name: keyof typeof MEASURES, snapshots: readonly string[], peer: CompiledPeer): Promise<Row> {
    const found = await this.measure(snapshots, peer);
    return rowOf(name, found.ours, found.peer, {
      snapshots: snapshots.length,
      'change lists': this.lists,
    });
  }

  /** The delta from the first to the last of the snapshots, beside the peer with their files. */
  async measure(snapshots: readonly string[], peer: CompiledPeer): Promise<{ ours: number[]; peer: number[] }> {
    const [base = '', target = ''] = [snapshots[0], snapshots.at(-1)];
    const files = [base, target].map((id) => snapshotFile(this.pool, id)) as [string, string];
    const ours = (): Promise<number> => timed(() => readDelta(this.plugin.driver.connection, base, target));
    const theirs = (): Promise<number> => peerMs(peer, files);
    for (const each of [ours, theirs]) await each();
    const found = await shuffledRounds(this.settings, [ours, theirs], (contender) => contender());
    return { ours: found.get(ours) ?? [], peer: found.get(theirs) ?? [] };
  }

  /** Whole lists of one snapshot, beside programs that print the extents of its file. */
  async extentToolRows(snapshot: string): Promise<Row[]> {
    const rows: Row[] = [];
    for (const { name, program, argumentsFor } of EXTENT_TOOLS) {
      const ours = (): Promise<number> => timed(() => readAllocated(this.plugin.driver.connection, snapshot));
      const args = argumentsFor(snapshotFile(this.pool, snapshot));
      const tool = findProgram(program);
      const theirs = async (): Promise<number> => (isMissing(tool) ? Number.NaN : toolMs(tool.program, args));
      const found = await shuffledRounds(this.settings, [ours, theirs], (contender) => contender());
      const peer = isMissing(tool)
        ? missingSide(program, 'ms', tool.missing)
        : { label: program, unit: 'ms', rounds: found.get(theirs) ?? [] };
      rows.push({
        name,
        measures: `list of everything allocated in a snapshot, nothing stored, beside ${program}`,
        ours: { label: 'plugin', unit: 'ms', rounds: found.get(ours) ?? [] },
        peer,
        facts: {},
      });
    }
    return rows;
  }

  /** Beside a scan of one file against itself, which is two scans: half of it counts. */
  async listRow(snapshots: readonly string[]): Promise<Row> {
    const file = snapshotFile(this.pool, snapshots.at(-1) ?? '');
    const found: number[] = [];
    // The first list finds no map of the snapshot before it.
    const rounds = this.#listCpuMs.slice(1);
    for (const _ of rounds) found.push((await peerMs('bare_delta', [file, file])) / 2);
    return rowOf('reflink-list-cpu', rounds, found, { snapshots: snapshots.length });
  }

  async removeAll(): Promise<void> {
    await this.volumes.removeAll();
    this.#listCpuMs.length = 0;
  }

  async end(): Promise<void> {
    await this.removeAll();
    await this.plugin.stop();
  }
}

/** From the call until the last message. */
async function timed(read: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await read();
  return performance.now() - started;
}

/** The whole process, with its output discarded. */
async function toolMs(program: string, args: readonly string[]): Promise<number> {
  const discarding = ['-c', 'exec "$@" > /dev/null', 'sh', program, ...args];
  return (await run('sh', discarding, { check: true })).seconds * 1000;
}

/** By the program's own clock, so that the start of its process does not count. */
async function peerMs(name: CompiledPeer, files: readonly [string, string]): Promise<number> {
  const peer = await compilePeer(name);
  if (isMissing(peer)) return Number.NaN;
  const { stdout } = await run(peer.program, files, { check: true });
  return Number(/\bms ([0-9.]+)/.exec(stdout)?.[1]);
}

function rowOf(name: keyof typeof MEASURES, ours: number[], peer: number[], facts: Row['facts']): Row {
  const isMeasured = peer.every(Number.isFinite);
  const label = name === 'reflink-delta-hot' ? 'byte comparison' : 'bare FIEMAP';
  const theirs: Side = isMeasured
    ? { label, unit: 'ms', rounds: peer }
    : missingSide(label, 'ms', 'the program could not be compiled: install the package g++');
  return {
    name,
    measures: `${MEASURES[name]}, beside ${label}`,
    ours: { label: 'plugin', unit: 'ms', rounds: ours },
    peer: theirs,
    facts,
  };
}
