/**
 * Tools that move extents while lists are streamed: balance, defragmentation, xfs_fsr, dedupe. They
 * may make lists longer, never shorter than what differs; nor the lists that are stored meanwhile.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Disturbance } from '../../support/disturbance.js';
import { addresses } from '../../support/extent-list.js';
import { soundLists, type TakenSnapshot, Tally } from '../../support/metadata-check.js';
import { isNightly } from '../../support/nightly.js';
import { type ReflinkBench, useBench, type Writing } from '../../support/reflink-bench.js';
import { test } from '../../support/running-plugin.js';
import type { PoolKind } from '../../support/workspace.js';

const MIB = 1 << 20;
const SIZE = 16 * MIB;
const BLOCK = 4096;
/** The tool works so often at least while lists are streamed, and in a nightly run so long. */
const ROUNDS = 3;
const NIGHTLY_MS = 60_000;

const KINDS = ['xfs', 'btrfs'] as const;
const STORED = ['without stored lists', 'while lists are stored'] as const;
type Stored = (typeof STORED)[number];

const BENCHES: Readonly<Record<Stored, ReflinkBench>> = {
  'without stored lists': useBench('relocation', KINDS),
  'while lists are stored': useBench('relocation-lists', KINDS, 'on'),
};
/** That of the test that runs. */
let bench = BENCHES['without stored lists'];

/** The lists that are stored so far are as good as gone: the next ones are made while the tool is at work. */
function forgetLists(kind: PoolKind): void {
  const lists = join(bench.pool(kind), 'lists');
  if (!existsSync(lists)) return;
  for (const name of readdirSync(lists)) {
    if (!name.endsWith('.tmp')) rmSync(join(lists, name), { force: true });
  }
}

interface Series {
  work: Writing;
  taken: TakenSnapshot[];
}

/** Snapshots of a full volume in many small extents, some shared by all of them and some by none. */
async function makeSeries(kind: PoolKind): Promise<Series> {
  const work = await bench.write(kind, SIZE);
  const series: Series = { work, taken: [] };
  for (let round = 0; round < 4; round += 1) {
    for (let offset = 0; offset < SIZE; offset += BLOCK) {
      if (round > 0 && bench.random.below(4) !== 0) continue;
      work.writer.write(offset, Buffer.alloc(BLOCK, bench.random.bytes(16)));
    }
    const id = await bench.snapshot(work);
    series.taken.push({ id, image: bench.read(kind, id, series.taken.at(-1)?.image) });
  }
  return series;
}

const files = ({ work, taken }: Series): { volume: string; snapshots: string[] } => ({
  volume: bench.pool(work.kind, 'volumes', work.volume.id),
  snapshots: taken.map(({ id }) => bench.snapshotPath(work.kind, id)),
});

/** Every list of the series, over and over as long as that is asked for. */
async function streamAll({ work, taken }: Series, goesOn: () => boolean): Promise<Tally> {
  const tally = new Tally();
  do {
    forgetLists(work.kind);
    const { allocated, deltas } = await soundLists(bench.client, taken);
    tally.add(allocated);
    tally.add(deltas);
  } while (goesOn());
  return tally;
}

/** How many blocks of these files have another address now. */
function countMoved(paths: readonly string[], earlier: readonly Map<number, number>[]): number {
  let moved = 0;
  paths.forEach((path, index) => {
    const now = addresses(path);
    for (const [block, address] of earlier[index] ?? []) {
      if (now.get(block) !== address) moved += 1;
    }
  });
  return moved;
}

/** Sums of a figure in the log lines of the plugin's streams. */
function logged(field: string): number {
  const found = bench.plugin.log.matchAll(new RegExp(`"${field}":"?(\\d+)`, 'g'));
  return [...found].reduce((sum, match) => sum + Number(match[1]), 0);
}

/** Streams while the tool is at work. Resolves to how many blocks it has moved, and what it said. */
async function streamWhile(context: TestContext, series: Series, tool: Tool) {
  const { volume, snapshots } = files(series);
  const pool = bench.pool(tool.kind);
  const earlier = { volume: [addresses(volume)], snapshots: snapshots.map(addresses) };
  const before = { rescans: logged('rescans'), unproved: logged('unprovedBytes') };
  const mover = Disturbance.script(tool.script, [pool, volume, ...snapshots]);
  let tally: Tally;
  try {
    const until = isNightly ? Date.now() + NIGHTLY_MS : 0;
    const rounds = tool.rounds ?? ROUNDS;
    tally = await streamAll(series, () => mover.rounds < rounds || Date.now() < until);
  } finally {
    // A balance takes long.
    if (tool.rounds === 1) spawnSync('btrfs', ['balance', 'cancel', pool], { stdio: 'ignore' });
    await mover.stop();
  }
  const moved = { volume: countMoved([volume], earlier.volume), snapshots: countMoved(snapshots, earlier.snapshots) };
  context.diagnostic(
    `${mover.rounds} rounds of the tool, ${moved.volume} and ${moved.snapshots} blocks elsewhere, ` +
      `${logged('rescans') - before.rescans} windows scanned again, ` +
      `${logged('unprovedBytes') - before.unproved} bytes not proved`,
  );
  context.diagnostic(String(tally));
  const settled = await streamAll(series, () => false);
  context.diagnostic(`afterwards: ${settled}`);
  context.diagnostic(`${logged('storedLists')} stored lists answered deltas so far`);
  assert.equal(logged('storedLists') > 0, bench === BENCHES['while lists are stored']);
  return { ...moved, output: mover.output };
}

interface Tool {
  title: string;
  kind: 'xfs' | 'btrfs';
  /** Finds the paths of the pool, the volume and its snapshots as $1 and so on. */
  script: string;
  stored: readonly Stored[];
  rounds?: number;
  movesSnapshots: boolean;
  movesVolume?: boolean;
  says?: RegExp;
}

const DEDUPE = {
  // The last snapshot but one has the volume's bytes elsewhere; the first ones have some.
  script: `from="\${@: -2:1}"; to="\${@:RANDOM % ($# - 1) + 2:1}"
    at=$((RANDOM % 2048 * 8192))
    xfs_io -c "dedupe $from $at $at 8192" "$2"
    xfs_io -r -c "dedupe $from $at $at 8192" "$to"
    xfs_io -c "dedupe $2 $at $at 8192" "\${@: -2:1}"`,
  stored: [STORED[0]],
  rounds: isNightly ? 20 : 8,
  movesSnapshots: false,
  movesVolume: true,
  // A snapshot cannot be deduped into.
  says: /Operation not permitted|EPERM/i,
};

const TOOLS: readonly Tool[] = [
  {
    title: 'a balance of btrfs moves everything',
    kind: 'btrfs',
    script: 'btrfs balance start --full-balance "$1"',
    stored: isNightly ? STORED : [STORED[1]],
    rounds: 1,
    movesSnapshots: true,
  },
  {
    title: 'defragmentation moves the volume and its immutable snapshots',
    kind: 'btrfs',
    script: `offset=$((RANDOM % 64 * 262144))
      for file in "\${@:2}"; do
        btrfs filesystem defragment -f -t 256M -s "$offset" -l 1048576 "$file"
      done
      sync -f "$1"`,
    stored: isNightly ? STORED : [STORED[0]],
    movesSnapshots: true,
  },
  {
    title: 'xfs_fsr does not move immutable snapshots',
    kind: 'xfs',
    script: `for file in "\${@:2}"; do xfs_fsr -v "$file"; done`,
    stored: isNightly ? STORED : [STORED[1]],
    movesSnapshots: false,
  },
  { title: 'dedupe on xfs reaches the volume and no snapshot', kind: 'xfs', ...DEDUPE },
  {
    title: 'dedupe on btrfs reaches the volume and no snapshot',
    kind: 'btrfs',
    ...DEDUPE,
    stored: isNightly ? DEDUPE.stored : [],
  },
];

for (const tool of TOOLS) {
  for (const stored of tool.stored) {
    test(`${tool.title}, and no list misses a byte, ${stored}`, async (context) => {
      bench = BENCHES[stored];
      const { kind, movesSnapshots } = tool;
      const series = await makeSeries(kind);
      if (tool.movesVolume) {
        // The same bytes once more, which then lie elsewhere and can be deduped.
        series.work.writer.apply('rewrite', 0, SIZE);
        const id = await bench.snapshot(series.work);
        series.taken.push({ id, image: bench.read(kind, id) });
      }
      const found = await streamWhile(context, series, tool);
      assert.equal(found.snapshots > 0, movesSnapshots, `snapshots moved: ${found.output}`);
      if (tool.movesVolume) assert.ok(found.volume > 0, 'nothing of the volume was moved');
      assert.match(found.output, tool.says ?? /(?:)/);
      await bench.end(series.work);
    });
  }
}

test('the newest snapshot of a volume under defragmentation holds what was written', async () => {
  bench = BENCHES['while lists are stored'];
  const work = await bench.write('btrfs', SIZE);
  const volume = bench.pool('btrfs', 'volumes', work.volume.id);
  const mover = Disturbance.script('btrfs filesystem defragment -f -t 256M "$1"', [volume]);
  try {
    let base: string | null = null;
    for (let round = 0; round < 4; round += 1) {
      work.writer.randomOperations(50, ['write', 'punch']);
      const target = await bench.snapshot(work);
      await bench.soundSnapshot('btrfs', target, work.writer.model);
      if (base !== null) await bench.soundDelta('btrfs', base, target);
      base = target;
    }
  } finally {
    await mover.stop();
  }
  assert.ok(mover.rounds > 0);
  execFileSync('sync', ['-f', volume]);
  await bench.end(work);
});
