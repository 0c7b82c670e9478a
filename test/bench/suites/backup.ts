/**
 * Suite backup: what the copy of a full and of an incremental backup takes, from the list of the snapshot to an image
 * on disk, beside dd and qemu-img, which read the whole device.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { tryLock } from '../../../src/base/system/file-lock.js';
import { RuntimeDirectory } from '../../../src/base/system/runtime-directory.js';
import { readChangeList } from '../../../src/tools/backup/change-list.js';
import { copyIntoImage } from '../../../src/tools/backup/copy-image.js';
import { BLOCK, type Volume, Volumes } from '../../../src/tools/bench/measured-volumes.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool, requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { openMetadata } from '../../../src/tools/client/metadata-stream.js';
import { compareImages } from '../../../src/tools/nbd/image.js';
import { findProgram, isMissing } from '../programs.js';

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const SIZES = { full: 8192 * MIB, tiny: 64 * MIB } as const;
const CHANGED_SHARE = 0.01;
/** What one change writes. */
const LARGE_CHANGE = 64 * KIB;
const SMALL_CHANGE = 4 * KIB;
const PROGRAMS = ['nbdkit', 'nbdcopy', 'qemu-nbd', 'qemu-img'] as const;

/** Copies the snapshot to a file, and has it on disk. */
interface Contender {
  label: string;
  file: string;
  copy(): Promise<void>;
}

export const suite: Suite = {
  name: 'backup',
  describes:
    'copies of a snapshot into full and incremental images, beside dd and qemu-img (root, nbdkit, libnbd-bin, qemu-utils)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    for (const program of PROGRAMS) {
      const found = findProgram(program);
      if (isMissing(found)) throw new Error(found.missing);
    }
    const place = await makePlace(settings);
    const { first, large, small } = place;
    // What the incremental images are based on; these stay.
    const base = imageOf(place, { name: 'base.qcow2', source: first, base: null });
    await base.copy();
    const next = { name: 'next.qcow2', source: large, base: { ...first, images: ['base.qcow2'] } };
    await imageOf(place, next).copy();
    await check(place, ['next.qcow2', 'base.qcow2'], large);

    const contenders = {
      full: imageOf(place, { name: 'full.qcow2', source: first, base: null }),
      dd: ddOf(place, first),
      convert: convertOf(place, first),
      large: imageOf(place, { ...next, name: 'large.qcow2' }),
      small: imageOf(place, {
        name: 'small.qcow2',
        source: small,
        base: { ...large, images: ['next.qcow2', 'base.qcow2'] },
      }),
    };
    settings.say(`copies of ${place.bytes / MIB} MiB in ${settings.rounds} rounds`);
    const found = await shuffledRounds(settings, Object.values(contenders), (contender) => secondsOf(contender, place));
    const secondsBy = (contender: Contender): number[] => found.get(contender) ?? [];
    return [
      fullRow('backup-full', place, contenders.full, contenders.dd, secondsBy),
      fullRow('backup-full-convert', place, contenders.full, contenders.convert, secondsBy),
      incrementalRow('backup-incremental', LARGE_CHANGE, place.bytes, {
        ours: secondsBy(contenders.large),
        full: secondsBy(contenders.full),
      }),
      incrementalRow('backup-incremental-blocks', SMALL_CHANGE, place.bytes, {
        ours: secondsBy(contenders.small),
        full: secondsBy(contenders.full),
      }),
    ];
  },
};

const CHECK = { check: true };

function ddOf({ path }: Place, { target }: Source): Contender {
  const file = path('copy.raw');
  const options = ['bs=1M', 'conv=fsync', 'status=none'];
  return {
    label: 'dd',
    file,
    async copy() {
      await run('dd', [`if=${target}`, `of=${file}`, ...options], CHECK);
    },
  };
}

function convertOf({ path }: Place, { target }: Source): Contender {
  const file = path('copy.qcow2');
  return {
    label: 'qemu-img convert',
    file,
    async copy() {
      await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', target, file], CHECK);
      await run('sync', [file], CHECK);
    },
  };
}

interface Image {
  name: string;
  source: Source;
  /** `images`: the names of its image and of those that is based on. */
  base: (Source & { images: string[] }) | null;
}

/** The list is read in the time that is measured: that is a part of each backup. */
function imageOf(place: Place, { name, source, base }: Image): Contender {
  const file = place.path(name);
  const sizeBytes = BigInt(place.bytes);
  const { signal } = new AbortController();
  return {
    label: name,
    file,
    async copy() {
      const list = await readChangeList({
        open: (request, end) => openMetadata(place.socketPath, request, end),
        snapshotId: source.snapshot,
        sizeBytes,
        bases: base === null ? [] : [{ id: base.snapshot, problem: null }],
        reasons: [],
        grainBytes: BigInt(SMALL_CHANGE),
        path: `${file}.ranges`,
        signal,
      });
      if ((list.baseId === null) !== (base === null)) throw new Error(`${name}: ${list.reasons}`);
      await copyIntoImage({
        from: { device: source.target },
        ranges: list.ranges,
        path: file,
        sizeBytes,
        backing: base?.images[0] ?? null,
        compression: null,
        signal,
      });
    },
  };
}

/**
 * All read from the disk: the buffers of the devices are emptied before. What the contender before has left to
 * write, such as the deletion of its file, is written first.
 */
async function secondsOf({ copy, file }: Contender, place: Place): Promise<number> {
  await run('sync', [], CHECK);
  for (const { target } of [place.first, place.large, place.small]) {
    await run('blockdev', ['--flushbufs', target], CHECK);
  }
  const started = performance.now();
  await copy();
  const seconds = (performance.now() - started) / 1000;
  rmSync(file);
  rmSync(`${file}.ranges`, { force: true });
  return seconds;
}

/** Fails unless the chain of images has the snapshot's contents: a faster wrong copy is worth nothing. */
async function check({ path }: Place, names: string[], { target }: Source): Promise<void> {
  const { isSame, detail } = await compareImages({ chain: names.map(path) }, { device: target });
  if (!isSame) throw new Error(`${names[0]} is not the snapshot: ${detail}`);
}

const RATE = 'MiB/s';

function fullRow(
  name: 'backup-full' | 'backup-full-convert',
  { bytes }: Place,
  ours: Contender,
  peer: Contender,
  secondsBy: (contender: Contender) => number[],
): Row {
  const rates = (contender: Contender): number[] => secondsBy(contender).map((seconds) => bytes / MIB / seconds);
  return {
    name,
    measures: `a full copy into an image, beside ${peer.label} of the same`,
    ours: { label: 'full image', unit: RATE, rounds: rates(ours) },
    peer: { label: peer.label, unit: RATE, rounds: rates(peer) },
    better: 'higher',
    facts: { 'MiB of the volume': bytes / MIB },
  };
}

function incrementalRow(
  name: 'backup-incremental' | 'backup-incremental-blocks',
  changeBytes: number,
  bytes: number,
  { ours, full }: { ours: number[]; full: number[] },
): Row {
  return {
    name,
    measures: `an incremental copy, 1 % changed in pieces of ${changeBytes / KIB} KiB, beside the full one`,
    ours: { label: 'incremental image', unit: 's', rounds: ours },
    peer: { label: 'full image', unit: 's', rounds: full },
    facts: { 'MiB of the volume': bytes / MIB, 'changed share': CHANGED_SHARE },
  };
}

/** A snapshot, restored to a volume. */
interface Source {
  snapshot: string;
  /** The device. */
  target: string;
}

interface Place {
  bytes: number;
  socketPath: string;
  first: Source;
  /** In each, a hundredth differs from the one before, in large or in small pieces. */
  large: Source;
  small: Source;
  runtime: RuntimeDirectory;
  path(name: string): string;
}

/** The volume is full of random bytes, so that no program may leave anything out. */
async function makePlace(settings: Settings): Promise<Place> {
  const workspace = Workspace.make(settings, 'backup');
  const pool = await makePool(workspace, 'xfs');
  const plugin = await PluginProcess.start(settings, workspace, {
    env: { BLOCKDELTA_POOLS: `bench=${pool}` },
  });
  const bytes = SIZES[settings.size];
  const volumes = new Volumes(settings, plugin.driver, workspace);
  const volume = await volumes.bringUp(await volumes.create(BLOCK, bytes));
  settings.say(`filling a volume of ${bytes / MIB} MiB`);
  const options = ['bs=1M', `count=${bytes / MIB}`, 'oflag=direct', 'status=none'];
  await run('dd', ['if=/dev/urandom', `of=${volume.targetPath}`, ...options], CHECK);
  const restore = async (): Promise<Source> => {
    const snapshot = await volumes.snapshot(volume);
    const restored = await volumes.bringUp(await volumes.create(BLOCK, bytes, snapshot));
    return { snapshot, target: restored.targetPath };
  };
  const first = await restore();
  writeChanges(settings, volume, LARGE_CHANGE);
  const large = await restore();
  writeChanges(settings, volume, SMALL_CHANGE);
  const small = await restore();
  const path = (name: string): string => workspace.path(name);
  const runtime = await RuntimeDirectory.open(path('runtime'), { tryLock, report: settings.say });
  const { socketPath } = plugin.driver;
  return { bytes, socketPath, first, large, small, runtime, path };
}

/** Overwrites a hundredth of the volume in pieces at random places. */
function writeChanges({ random }: Settings, { targetPath, sizeBytes }: Volume, size: number): void {
  const file = openSync(targetPath, 'r+');
  try {
    const pieces = sizeBytes / size;
    for (let count = Math.floor(pieces * CHANGED_SHARE); count > 0; count -= 1) {
      writeSync(file, randomBytes(size), 0, size, random.below(pieces) * size);
    }
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
