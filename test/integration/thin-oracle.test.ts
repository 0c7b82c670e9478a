/**
 * Lists of the addon beside those of Debian's thin-provisioning-tools, range by range, on generated
 * metadata and on what a kernel wrote.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { after, type TestContext, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { loadAddon, type ScanSource } from '../../src/native/addon.js';
import type { ThinScanSource, ThinSuperblock } from '../../src/native/thin-addon.js';
import type { Range } from '../support/csi-client.js';
import { isNightly } from '../support/nightly.js';
import { type Random, seededRandom } from '../support/random.js';
import { merged } from '../support/ranges.js';
import { makeThinMetadata, skipWithoutThinTools, thinTool } from '../support/thin-tools.js';
import { decodeFrames } from '../support/wire.js';
import { Workspace } from '../support/workspace.js';

const FILES = isNightly ? 1000 : 12;
/** Ordered pairs of devices that are compared in each. */
const PAIRS = 4;

const addon = loadAddon();
const workspace = new Workspace('thin-oracle');
after(() => workspace.dispose());

interface Run {
  kind: string;
  begin: bigint;
  length: bigint;
}

const KINDS = ['same', 'left_only', 'right_only', 'different'] as const;
const FILL_BUFFER_BYTES = 256 * 1024;

interface DeltaQuestion {
  metadata: string;
  superblock: bigint;
  base: number | null;
  target: number;
  includeSame: boolean;
}

/** By thinDelta, in calls of random size. */
function runsOf(question: DeltaQuestion, random: Random): Run[] {
  const runs: Run[] = [];
  let firstBlock = 0n;
  for (;;) {
    const maxRecords = 1 + random.below(random.pick([3, 500, 65536]));
    const answer = addon.thinDelta({ ...question, firstBlock, maxRecords });
    if (!answer.ok) throw new Error(answer.message);
    for (let at = 0; at < answer.words.length; at += 3) {
      const [kind, begin, length] = answer.words.subarray(at, at + 3);
      assert.ok(kind !== undefined && begin !== undefined && length !== undefined);
      append(runs, { kind: KINDS[Number(kind)] ?? String(kind), begin, length });
    }
    if (answer.done) return runs;
    assert.ok(answer.nextBlock > firstBlock, 'a call gets on');
    firstBlock = answer.nextBlock;
  }
}

/** By fillMetadata, in calls of random size. */
function rangesOf(source: ScanSource, random: Random): Range[] {
  const buffer = new ArrayBuffer(FILL_BUFFER_BYTES);
  const ranges: Range[] = [];
  let position = { offset: 0n, rangeStart: 0n };
  for (;;) {
    const answer = addon.fillMetadata(
      {
        source,
        ...position,
        maxEntries: 1 + random.below(random.pick([5, 5000])),
        maxEntriesPerMessage: 1 + random.below(1000),
        maxExtents: 1 + random.below(random.pick([20, 100_000])),
        sendEmpty: false,
      },
      buffer,
    );
    if (!answer.ok) throw new Error(answer.message);
    for (const message of decodeFrames(new Uint8Array(buffer, 0, answer.bytes))) {
      ranges.push(...message.ranges);
    }
    if (answer.done) return ranges;
    position = { offset: answer.nextOffset, rangeStart: answer.nextRangeStart };
  }
}

/** What a list of changed blocks comes to in a volume of so many bytes. */
function toRanges(runs: readonly Run[], blockBytes: bigint, sizeBytes: bigint): Range[] {
  const ranges = runs.flatMap(({ kind, begin, length }) => {
    const offset = begin * blockBytes;
    const end = (begin + length) * blockBytes;
    if (kind === 'same' || offset >= sizeBytes) return [];
    return [{ offset, size: (end < sizeBytes ? end : sizeBytes) - offset }];
  });
  return merged(ranges);
}

/** The records of thin_delta's output. */
function deltaRecords(xml: string): Run[] {
  const record = /<(same|left_only|right_only|different) begin="(\d+)" length="(\d+)"\/>/g;
  return [...xml.matchAll(record)].map(([, kind = '', begin = '', length = '']) => ({
    kind,
    begin: BigInt(begin),
    length: BigInt(length),
  }));
}

/** What thin_dump's output says to be mapped in each device. */
function dumpedMappings(xml: string): Map<number, Run[]> {
  const devices = new Map<number, Run[]>();
  const element =
    /<(device dev_id|single_mapping origin_block|range_mapping origin_begin)="(\d+)"([^>]*)>/g;
  let runs: Run[] = [];
  for (const [, name = '', number = '', rest = ''] of xml.matchAll(element)) {
    if (name.startsWith('device')) {
      runs = [];
      devices.set(Number(number), runs);
    } else {
      const length = BigInt(/ length="(\d+)"/.exec(rest)?.[1] ?? 1);
      append(runs, { kind: 'right_only', begin: BigInt(number), length });
    }
  }
  return devices;
}

/** Neighbours of one kind become one. */
function append(runs: Run[], run: Run): void {
  const last = runs.at(-1);
  if (last?.kind === run.kind && last.begin + last.length === run.begin) last.length += run.length;
  else runs.push({ ...run });
}

interface Pool {
  path: string;
  superblock: bigint;
  /** What makes the tools look where we do. */
  toolOptions: string[];
  fields: ThinSuperblock;
  deviceIds: number[];
}

function openPool(path: string, isHeld: boolean): Pool {
  const current = must(addon.thinSuperblock({ metadata: path, superblock: 0n })).superblock;
  const superblock = isHeld ? (current.heldRoot ?? 0n) : 0n;
  const listed = must(addon.thinDevices({ metadata: path, superblock, deviceIds: null }));
  return {
    path,
    superblock,
    toolOptions: isHeld ? ['-m'] : [],
    fields: current,
    deviceIds: listed.devices.map(({ deviceId }) => deviceId),
  };
}

function must<T>(result: ({ ok: true } & T) | { ok: false; message: string }): T {
  if (!result.ok) throw new Error(result.message);
  return result;
}

function source(
  pool: Pool,
  base: number | null,
  target: number,
  sizeBytes: bigint,
): ThinScanSource {
  return {
    kind: 'thin',
    metadata: pool.path,
    superblock: pool.superblock,
    sizeBytes,
    target: { deviceId: target, root: null },
    base: base === null ? null : { deviceId: base, root: null },
    bookmark: null,
  };
}

/** Blocks that no scan of these files reaches. */
const ALL_BLOCKS = 1n << 24n;

function someSize(pool: Pool, lastBlock: bigint, random: Random): bigint {
  const { dataBlockBytes } = pool.fields;
  if (random.below(2) === 0) return ALL_BLOCKS * dataBlockBytes;
  return 1n + (BigInt(random.below(2 ** 31)) * (lastBlock + 2n) * dataBlockBytes) / 2n ** 31n;
}

async function compareDelta(pool: Pool, base: number, target: number, random: Random) {
  const { path: metadata, superblock } = pool;
  const options = [...pool.toolOptions, '--thin1', `${base}`, '--thin2', `${target}`, metadata];
  const expected = deltaRecords(await thinTool('thin_delta', options));
  const question = { metadata, superblock, base, target };
  assert.deepEqual(runsOf({ ...question, includeSame: true }, random), expected);
  assert.deepEqual(
    runsOf({ ...question, includeSame: false }, random),
    expected.filter(({ kind }) => kind !== 'same'),
  );
  const sizeBytes = someSize(pool, expected.at(-1)?.begin ?? 0n, random);
  const ranges = toRanges(expected, pool.fields.dataBlockBytes, sizeBytes);
  assert.deepEqual(rangesOf(source(pool, base, target, sizeBytes), random), ranges);
  return { sizeBytes, ranges };
}

/** The base is compared with as if it were deleted: by what was kept of it. */
function compareKept(
  pool: Pool,
  base: number,
  target: number,
  live: Awaited<ReturnType<typeof compareDelta>>,
  random: Random,
): void {
  const path = workspace.path('kept');
  rmSync(path, { force: true });
  must(
    addon.createThinBookmark({
      metadata: pool.path,
      superblock: pool.superblock,
      device: { deviceId: base, root: null },
      sizeBytes: live.sizeBytes,
      temporaryPath: `${path}.tmp`,
      path,
    }),
  );
  const kept = { ...source(pool, null, target, live.sizeBytes), bookmark: { path } };
  assert.deepEqual(rangesOf(kept, random), live.ranges);
}

async function compareMapped(pool: Pool, random: Random): Promise<void> {
  const { path: metadata, superblock } = pool;
  const dumped = dumpedMappings(await thinTool('thin_dump', [...pool.toolOptions, metadata]));
  assert.deepEqual([...dumped.keys()], pool.deviceIds);
  for (const [target, runs] of dumped) {
    const question = { metadata, superblock, base: null, target, includeSame: false };
    assert.deepEqual(runsOf(question, random), runs);
    const sizeBytes = someSize(pool, runs.at(-1)?.begin ?? 0n, random);
    assert.deepEqual(
      rangesOf(source(pool, null, target, sizeBytes), random),
      toRanges(runs, pool.fields.dataBlockBytes, sizeBytes),
    );
  }
}

async function compareDetails(pool: Pool): Promise<void> {
  const columns = 'DEV,MAPPED_BLOCKS,CREATE_TIME,SNAP_TIME';
  const options = ['--no-headers', '-o', columns, ...pool.toolOptions, pool.path];
  const expected = (await thinTool('thin_ls', options))
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).join(' '));
  const request = { metadata: pool.path, superblock: pool.superblock, deviceIds: null };
  const found = must(addon.thinDevices(request)).devices.map(
    ({ deviceId, mappedBlocks, creationTime, snapshottedTime }) =>
      `${deviceId} ${mappedBlocks} ${creationTime} ${snapshottedTime}`,
  );
  assert.deepEqual(found, expected);
}

interface Story {
  options: string[];
  isHeld: boolean;
  /** Snapshots nobody has written to: what is kept of them says all. */
  isPure: boolean;
}

function randomStory(random: Random): Story {
  const mapped = Math.floor(2 ** (random.unit() * 15));
  const isHeld = random.below(4) === 0;
  const written = random.below(4) === 0 ? 1 + random.below(20) : 0;
  const options: Record<string, number | string> = {
    mapped,
    snaps: 1 + random.below(random.pick([3, 12])),
    changed: random.pick([0.0001, 0.001, 0.01, 0.1, 0.5, 1]),
    pattern: random.pick(['random', 'clustered', 'sequential']),
    cluster: 1 + random.below(200),
    new: random.pick([0, 0, 0.2, 0.4]),
    discard: random.pick([0, 0, 0.2, 0.4]),
    'discard-leaves': random.below(3) === 0 ? random.below(10) : 0,
    density: random.pick([1, 1, 0.9, 0.4]),
    fill: random.pick([0.5, 0.75, 0.92]),
    layout: random.pick(['shuffled', 'linear']),
    'data-order': random.pick(['linear', 'random']),
    'data-block-sectors': random.pick([128, 128, 256, 2048]),
    'write-snapshots': written,
    seed: random.below(2 ** 31),
  };
  const given = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  if (isHeld) given.push('--metadata-snap', '--after', `${random.below(500)}`);
  if (random.below(5) === 0) given.push('--empty-device');
  return { options: given, isHeld, isPure: written === 0 };
}

async function compareFile(path: string, story: Story, random: Random): Promise<number> {
  let cases = 0;
  for (const isHeld of story.isHeld ? [true, false] : [false]) {
    const pool = openPool(path, isHeld);
    await compareDetails(pool);
    await compareMapped(pool, random);
    for (let pair = 0; pair < PAIRS; pair += 1) {
      const base = random.pick(pool.deviceIds);
      const target = random.pick(pool.deviceIds);
      const live = await compareDelta(pool, base, target, random);
      const snapshots = pool.deviceIds.length - (story.options.includes('--empty-device') ? 1 : 0);
      const isLine = base > 1 && base < target && target <= snapshots;
      if (story.isPure && isLine) compareKept(pool, base, target, live, random);
      cases += 1;
    }
  }
  return cases;
}

test('lists of generated metadata are those of thin_delta, thin_dump and thin_ls', {
  skip: skipWithoutThinTools,
}, async (context: TestContext) => {
  const random = seededRandom('thin oracle');
  const path = workspace.path('generated');
  let cases = 0;
  for (let file = 0; file < FILES; file += 1) {
    const story = randomStory(random);
    await makeThinMetadata(path, story.options);
    try {
      cases += await compareFile(path, story, random);
    } catch (error) {
      throw new Error(`make-thin-metadata ${story.options.join(' ')}`, { cause: error });
    }
  }
  assert.ok(cases >= FILES * PAIRS);
  context.diagnostic(`${cases} deltas compared`);
});

test('lists of what a kernel wrote are those of thin_delta, live and held, both ways', {
  skip: skipWithoutThinTools,
}, async () => {
  const random = seededRandom('thin oracle, kernel');
  const path = workspace.path('kernel');
  const packed = packagePath('test/fixtures/thin-metadata-kernel-6.1.bin.zst');
  execFileSync('zstd', ['-q', '-d', '--sparse', packed, '-o', path]);
  for (const isHeld of [false, true]) {
    const pool = openPool(path, isHeld);
    assert.deepEqual(pool.deviceIds, [1, 2, 3, 4]);
    await compareDetails(pool);
    await compareMapped(pool, random);
    for (const base of pool.deviceIds) {
      for (const target of pool.deviceIds) {
        if (base === target) continue;
        // The tool takes long to print them: neighbours one way here, and the other way there.
        const isNear = Math.abs(base - target) === 1 && isHeld === base < target;
        if (!isNightly && !isNear) continue;
        const live = await compareDelta(pool, base, target, random);
        if (base > 1 && base < target) compareKept(pool, base, target, live, random);
      }
    }
  }
});
