/**
 * Lists of the addon beside those of Debian's thin-provisioning-tools, range by range, on generated
 * metadata and on what a kernel wrote.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, type TestContext, test } from 'node:test';
import { type NativeResult, toSystemError } from '../../../src/base/system/native-result.js';
import { loadAddon, type ScanSource } from '../../../src/driver/native/addon.js';
import type { ThinScanSource } from '../../../src/driver/native/thin-addon.js';
import { coverage } from '../../../src/tools/conformance/ranges.js';
import type { Range } from '../../support/csi-client.js';
import { isNightly } from '../../support/nightly.js';
import { type Random, seededRandom } from '../../support/random.js';
import { kernelMetadata, makeThinMetadata, skipWithoutThinTools, thinTool } from '../../support/thin-tools.js';
import { decodeFrames } from '../../support/wire.js';
import { Workspace } from '../../support/workspace.js';

const FILES = isNightly ? 250 : 2;
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

type Question = Omit<Parameters<typeof addon.thinDelta>[0], 'firstBlock' | 'maxRecords'>;

/** By thinDelta, in calls of random size. */
function runsOf(question: Question, random: Random): Run[] {
  const runs: Run[] = [];
  let firstBlock = 0n;
  for (;;) {
    const maxRecords = 1 + random.below(random.pick([3, 500, 65536]));
    const answer = addon.thinDelta({ ...question, firstBlock, maxRecords });
    if (!answer.ok) throw toSystemError(answer);
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
    if (!answer.ok) throw toSystemError(answer);
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
  return coverage(ranges);
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
  const element = /<(device dev_id|single_mapping origin_block|range_mapping origin_begin)="(\d+)"([^>]*)>/g;
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

function must<T>(result: NativeResult<T>): T {
  if (!result.ok) throw toSystemError(result);
  return result;
}

/** Blocks that no scan of these files reaches. */
const ALL_BLOCKS = 1n << 24n;

/** The metadata of a pool as it is, or as its metadata snapshot holds it, beside what the tools say of it. */
class Pool {
  readonly deviceIds: number[];
  readonly #place: { metadata: string; superblock: bigint };
  readonly #blockBytes: bigint;
  /** What makes the tools look where we do. */
  readonly #toolPlace: string[];

  constructor(
    metadata: string,
    isHeld: boolean,
    private readonly random: Random,
  ) {
    const current = must(addon.thinSuperblock({ metadata, superblock: 0n })).superblock;
    this.#place = { metadata, superblock: isHeld ? (current.heldRoot ?? 0n) : 0n };
    this.#blockBytes = current.dataBlockBytes;
    this.#toolPlace = isHeld ? ['-m', metadata] : [metadata];
    this.deviceIds = this.#devices().map(({ deviceId }) => deviceId);
  }

  async compareDetails(): Promise<void> {
    const columns = ['--no-headers', '-o', 'DEV,MAPPED_BLOCKS,CREATE_TIME,SNAP_TIME'];
    const expected = (await thinTool('thin_ls', [...columns, ...this.#toolPlace]))
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).join(' '));
    const found = this.#devices().map(
      ({ deviceId, mappedBlocks, creationTime, snapshottedTime }) =>
        `${deviceId} ${mappedBlocks} ${creationTime} ${snapshottedTime}`,
    );
    assert.deepEqual(found, expected);
  }

  async compareMapped(): Promise<void> {
    const dumped = dumpedMappings(await thinTool('thin_dump', this.#toolPlace));
    assert.deepEqual([...dumped.keys()], this.deviceIds);
    for (const [target, runs] of dumped) {
      const question = { ...this.#place, base: null, target, includeSame: false };
      assert.deepEqual(runsOf(question, this.random), runs);
      this.#compareRanges(null, target, runs);
    }
  }

  /** @param isLine whether to compare also with the base as if it were deleted: by what was kept of it */
  async compareDelta(base: number, target: number, isLine: boolean): Promise<void> {
    const options = ['--thin1', `${base}`, '--thin2', `${target}`, ...this.#toolPlace];
    const expected = deltaRecords(await thinTool('thin_delta', options));
    const changed = expected.filter(({ kind }) => kind !== 'same');
    const question = { ...this.#place, base, target };
    assert.deepEqual(runsOf({ ...question, includeSame: true }, this.random), expected);
    assert.deepEqual(runsOf({ ...question, includeSame: false }, this.random), changed);
    const { sizeBytes, ranges } = this.#compareRanges(base, target, expected);
    if (!isLine) return;
    const path = workspace.path('kept');
    rmSync(path, { force: true });
    const device = { deviceId: base, root: null };
    const temporaryPath = `${path}.tmp`;
    must(addon.createThinBookmark({ ...this.#place, device, sizeBytes, temporaryPath, path }));
    const kept = { ...this.#source(null, target, sizeBytes), bookmark: { path } };
    assert.deepEqual(rangesOf(kept, this.random), ranges);
  }

  /** The ranges of a volume of some size. */
  #compareRanges(base: number | null, target: number, runs: readonly Run[]) {
    const sizeBytes = this.#someSize(runs.at(-1)?.begin ?? 0n);
    const ranges = toRanges(runs, this.#blockBytes, sizeBytes);
    assert.deepEqual(rangesOf(this.#source(base, target, sizeBytes), this.random), ranges);
    return { sizeBytes, ranges };
  }

  #source(base: number | null, target: number, sizeBytes: bigint): ThinScanSource {
    return {
      kind: 'thin',
      ...this.#place,
      sizeBytes,
      bookmark: null,
      target: { deviceId: target, root: null },
      base: base === null ? null : { deviceId: base, root: null },
    };
  }

  #someSize(lastBlock: bigint): bigint {
    if (this.random.below(2) === 0) return ALL_BLOCKS * this.#blockBytes;
    const part = BigInt(this.random.below(2 ** 31));
    return 1n + (part * (lastBlock + 2n) * this.#blockBytes) / 2n ** 31n;
  }

  #devices() {
    return must(addon.thinDevices({ ...this.#place, deviceIds: null })).devices;
  }
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
    const pool = new Pool(path, isHeld, random);
    await pool.compareDetails();
    await pool.compareMapped();
    for (let pair = 0; pair < PAIRS; pair += 1) {
      const base = random.pick(pool.deviceIds);
      const target = random.pick(pool.deviceIds);
      const snapshots = pool.deviceIds.length - (story.options.includes('--empty-device') ? 1 : 0);
      const isLine = base > 1 && base < target && target <= snapshots;
      await pool.compareDelta(base, target, story.isPure && isLine);
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
  const path = await kernelMetadata(workspace.path('kernel'));
  for (const isHeld of [false, true]) {
    const pool = new Pool(path, isHeld, random);
    assert.deepEqual(pool.deviceIds, [1, 2, 3, 4]);
    await pool.compareDetails();
    await pool.compareMapped();
    for (const base of pool.deviceIds) {
      for (const target of pool.deviceIds) {
        if (base === target) continue;
        // The tool takes long to print them: neighbours one way here, and the other way there.
        const isNear = Math.abs(base - target) === 1 && isHeld === base < target;
        if (!isNightly && !isNear) continue;
        await pool.compareDelta(base, target, base > 1 && base < target);
      }
    }
  }
});
