/**
 * Suite stall: for how long a snapshot keeps a writer of the volume waiting, beside a bare FICLONE of the same file, by
 * number of extents and file system.
 */

import { rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { BLOCK, Volumes, XFS } from '../../../src/tools/bench/measured-volumes.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool, type PoolKind, requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { median } from '../../../src/tools/bench/statistics.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { type Gaps, Writer } from '../stall/writer.js';
import { allocateExtents, sizeOfExtents, writeExtents } from '../storage/fragments.js';
import { backingFileOf } from '../storage/pool-files.js';

/** The row of a mounted volume. */
const MOUNTED = 'stall-btrfs';
const CASES = {
  full: { xfs: [10_000, 100_000], btrfs: [10_000, 100_000, 1_000_000] },
  tiny: { xfs: [500], btrfs: [500] },
} as const;
/** A clone of more extents takes seconds: fewer rounds are enough, and all there is time for. */
const LONG_EXTENTS = 500_000;
const LONG_ROUNDS = 2;
const SETTLE_MS = 200;
/** For the metadata of a file system, which also has a least size. */
const FILE_SYSTEM_BYTES = 512 * 2 ** 20;

export const suite: Suite = {
  name: 'stall',
  describes: 'what a snapshot costs a writer, by extents, on XFS and btrfs (root)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    const rows: Row[] = [];
    for (const kind of ['xfs', 'btrfs'] as const) {
      const sizes: number[] = [...CASES[settings.size][kind]];
      const largest = sizes.at(-1);
      const nameOf = (extents: number): string =>
        kind === 'btrfs' && extents === largest ? MOUNTED : `stall-${kind}-${extents}`;
      rows.push(...(await rowsOf(settings, kind, sizes, nameOf)));
    }
    return rows;
  },
};

async function rowsOf(
  settings: Settings,
  kind: PoolKind,
  sizes: readonly number[],
  nameOf: (extents: number) => string,
): Promise<Row[]> {
  const workspace = Workspace.make(settings, `stall-${kind}`);
  const pool = await makePool(workspace, kind);
  const plugin = await PluginProcess.start(settings, workspace, {
    env: { BLOCKDELTA_POOLS: `bench=${pool}` },
  });
  const volumes = new Volumes(settings, plugin.driver, workspace);
  const rows: Row[] = [];
  for (const extents of sizes) {
    const name = nameOf(extents);
    const mounted = name === MOUNTED;
    rows.push(await oneRow(settings, { kind, pool, extents, name, mounted }, volumes));
  }
  return rows;
}

interface Case {
  kind: PoolKind;
  pool: string;
  extents: number;
  name: string;
  /** Whether the volume has a file system, which is frozen for a snapshot; a raw device is not. */
  mounted: boolean;
}

async function oneRow(settings: Settings, given: Case, volumes: Volumes): Promise<Row> {
  const { kind, pool, extents, name, mounted } = given;
  settings.say(`${name}: making ${extents} extents on ${kind}`);
  const bytes = sizeOfExtents(extents);
  const volume = mounted ? await volumes.create(XFS, bytes + FILE_SYSTEM_BYTES) : await volumes.create(BLOCK, bytes);
  await volumes.bringUp(volume);
  const file = backingFileOf(volume.targetPath);
  const written = mounted ? `${volume.targetPath}/file` : volume.targetPath;
  if (mounted) {
    await run('fallocate', ['-l', String(bytes), written], { check: true });
    await allocateExtents(file, extents);
  } else {
    await writeExtents(file, extents);
  }
  const clone = `${pool}/clone`;
  const contenders = {
    snapshot: async () => {
      const id = await volumes.snapshot(volume);
      return () => volumes.deleteSnapshot(id);
    },
    clone: async () => {
      await run('cp', ['--reflink=always', file, clone], { check: true });
      return async () => rmSync(clone);
    },
  };
  const writer = await Writer.start(settings, written, extents);
  const seen: Record<keyof typeof contenders, Gaps[]> = { snapshot: [], clone: [] };
  const rounds = extents > LONG_EXTENTS ? Math.min(LONG_ROUNDS, settings.rounds) : settings.rounds;
  const found = await shuffledRounds({ ...settings, rounds }, ['snapshot', 'clone'] as const, async (contender) => {
    await delay(SETTLE_MS);
    const from = process.hrtime.bigint();
    const remove = await contenders[contender]();
    const gaps = await writer.gaps({ from, to: process.hrtime.bigint() });
    seen[contender].push(gaps);
    await remove();
    return gaps.longest;
  });
  await writer.stop();
  await volumes.removeAll();
  const last = found.get('snapshot')?.at(-1)?.toFixed(1);
  settings.say(`${name}: ${rounds} rounds, the last snapshot's longest gap ${last} ms`);
  const shown = (gaps: readonly Gaps[]): string => {
    const figures = (['p50', 'p99'] as const).map((key) => median(gaps.map((each) => each[key])));
    return `p50 ${figures[0]?.toFixed(2)} ms, p99 ${figures[1]?.toFixed(1)} ms`;
  };
  return {
    name,
    measures: measuresOf(kind, extents, mounted),
    ours: { label: 'CreateSnapshot', unit: 'ms', rounds: found.get('snapshot') ?? [] },
    peer: { label: 'FICLONE', unit: 'ms', rounds: found.get('clone') ?? [] },
    facts: {
      extents,
      rounds,
      'gaps during CreateSnapshot': shown(seen.snapshot),
      'gaps during FICLONE': shown(seen.clone),
    },
  };
}

function measuresOf(kind: PoolKind, extents: number, mounted: boolean): string {
  const volume = `${mounted ? 'mounted' : 'raw'} ${kind} volume`;
  return `longest gap of a writer during a snapshot of a ${volume} with ${extents} extents, beside FICLONE of the same`;
}
