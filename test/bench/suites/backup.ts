/**
 * Suite backup: what the copy of a full and of an incremental backup takes, from the list of the snapshot to an image
 * on disk with its checksums, beside dd and qemu-img, which read the whole device, and beside fio, which reads what is listed.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { flush } from '../../../src/base/system/checked-files.js';
import { tryLock } from '../../../src/base/system/file-lock.js';
import { RuntimeDirectory } from '../../../src/base/system/runtime-directory.js';
import { readChangeList } from '../../../src/tools/backup/change-list.js';
import { checksumSegments } from '../../../src/tools/backup/checksums.js';
import { copyIntoImage } from '../../../src/tools/backup/copy-image.js';
import { BLOCK, type Volume, Volumes } from '../../../src/tools/bench/measured-volumes.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool, requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row, Side } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { openMetadata } from '../../../src/tools/client/metadata-stream.js';
import { type Compression, compareImages } from '../../../src/tools/nbd/image.js';
import { findProgram, isMissing } from '../programs.js';

const KIB = 2 ** 10;
const MIB = 2 ** 20;
const SIZES = { full: 8192 * MIB, tiny: 64 * MIB } as const;
const CHANGED_SHARE = 0.01;
/** What one change writes. */
const LARGE_CHANGE = 64 * KIB;
const SMALL_CHANGE = 4 * KIB;
const PROGRAMS = ['qemu-img', 'fio'] as const;

/** Copies the snapshot to a file, and has it on disk. */
interface Contender {
  label: string;
  file: string;
  /** Resolves to the seconds that count, if not all do. */
  copy(): Promise<number | undefined>;
}

export const suite: Suite = {
  name: 'backup',
  describes:
    'copies of a snapshot into full and incremental images, beside dd, qemu-img and fio (root, qemu-utils, fio)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    for (const program of PROGRAMS) {
      const found = findProgram(program);
      if (isMissing(found)) throw new Error(found.missing);
    }
    const place = await makePlace(settings);
    const { first, half, large, small } = place;
    // What the incremental images are based on; these stay.
    const base = imageOf(place, { name: 'base.qcow2', source: first, base: null });
    await base.copy();
    const next = { name: 'next.qcow2', source: large, base: { ...first, images: ['base.qcow2'] } };
    await imageOf(place, next).copy();
    await check(place, ['next.qcow2', 'base.qcow2'], large);
    const changes = { source: small, base: { ...large, images: ['next.qcow2', 'base.qcow2'] } };
    const blocks = imageOf(place, { ...changes, name: 'blocks.qcow2' });
    await blocks.copy();
    await check(place, ['blocks.qcow2', 'next.qcow2', 'base.qcow2'], small);
    const list = readFileSync(`${blocks.file}.ranges`, 'utf8');

    const contenders = {
      full: imageOf(place, { name: 'full.qcow2', source: first, base: null }),
      dd: ddOf(place, first),
      convert: convertOf(place, 'convert.qcow2', first),
      half: imageOf(place, { name: 'half.qcow2', source: half, base: null }),
      halfConvert: convertOf(place, 'half-convert.qcow2', half),
      zstd: imageOf(place, { name: 'zstd.qcow2', source: first, base: null, compression: 'zstd' }),
      zstdConvert: convertOf(place, 'zstd-convert.qcow2', first, '-c', '-o', 'compression_type=zstd'),
      large: imageOf(place, { ...next, name: 'large.qcow2' }),
      small: imageOf(place, { ...changes, name: 'small.qcow2' }),
      smallZstd: imageOf(place, { ...changes, name: 'small-zstd.qcow2', compression: 'zstd' }),
      fio: fioOf(place, small, list),
    };
    settings.say(`copies of ${place.bytes / MIB} MiB in ${settings.rounds} rounds`);
    const lengths = new Map<Contender, number[]>();
    const found = await shuffledRounds(settings, Object.values(contenders), async (contender) => {
      const { seconds, length } = await measured(contender, place);
      lengths.set(contender, [...(lengths.get(contender) ?? []), length]);
      return seconds;
    });
    const secondsBy = (contender: Contender): number[] => found.get(contender) ?? [];
    const times = (contender: Contender): Side => ({ label: contender.label, unit: 's', rounds: secondsBy(contender) });
    const mib = (label: string, bytes: number[]): Side => ({
      label,
      unit: 'MiB',
      rounds: bytes.map((each) => each / MIB),
    });
    const files = (contender: Contender): number[] => lengths.get(contender) ?? [];
    const facts = { 'MiB of the volume': place.bytes / MIB };
    const changed = { ...facts, 'changed share': CHANGED_SHARE };
    const row = (name: string, measures: string, ours: Side, peer: Side): Row => ({
      name,
      measures,
      ours,
      peer,
      facts,
    });
    const [full, convert] = [times(contenders.full), times(contenders.convert)];
    const pieces = `1 % changed in pieces of ${SMALL_CHANGE / KIB} KiB`;
    const listed = bytesOf(list);
    return [
      fullRow('backup-full', place, contenders.full, contenders.dd, secondsBy),
      row('backup-full-plain', 'a full copy into an image, beside qemu-img convert', full, convert),
      row(
        'backup-full-half',
        'the same of a volume that is half full',
        times(contenders.half),
        times(contenders.halfConvert),
      ),
      row('backup-full-zstd', 'a full copy, compressed', times(contenders.zstd), times(contenders.zstdConvert)),
      {
        ...row(
          'backup-incremental',
          `an incremental copy, 1 % changed in pieces of ${LARGE_CHANGE / KIB} KiB, beside the full one`,
          times(contenders.large),
          full,
        ),
        facts: changed,
      },
      {
        ...row(
          'backup-incremental-blocks',
          `an incremental copy, ${pieces}, beside fio of the same places`,
          times(contenders.small),
          times(contenders.fio),
        ),
        facts: changed,
      },
      row(
        'backup-incremental-length',
        `the length of the file, ${pieces}`,
        mib('image', files(contenders.small)),
        mib(
          'changed',
          files(contenders.small).map(() => listed),
        ),
      ),
      row(
        'backup-incremental-length-zstd',
        'the same, compressed, beside the plain one',
        mib('compressed image', files(contenders.smallZstd)),
        mib('plain image', files(contenders.small)),
      ),
    ];
  },
};

function bytesOf(list: string): number {
  return list.split('\n').reduce((sum, line) => sum + Number(line.split(' ')[1] ?? 0), 0);
}

const CHECK = { check: true };

function ddOf({ path }: Place, { target }: Source): Contender {
  const file = path('copy.raw');
  const options = ['bs=1M', 'conv=fsync', 'status=none'];
  return {
    label: 'dd',
    file,
    async copy() {
      await run('dd', [`if=${target}`, `of=${file}`, ...options], CHECK);
      return undefined;
    },
  };
}

function convertOf({ path }: Place, name: string, { target }: Source, ...more: string[]): Contender {
  const file = path(name);
  const options = ['-W', '-m', '8', '-t', 'none', '-T', 'none', ...more];
  return {
    label: `qemu-img convert${more.length > 0 ? ' -c' : ''}`,
    file,
    async copy() {
      await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', ...options, target, file], CHECK);
      await run('sync', [file], CHECK);
      return undefined;
    },
  };
}

/** Reads the places at a depth of 16, and then writes as many bytes in sequence. Its own starts and ends do not count. */
function fioOf({ path }: Place, { target }: Source, list: string): Contender {
  const [file, log] = [path('fio.out'), path('fio.log')];
  const reads = list
    .trim()
    .split('\n')
    .map((range) => `${target} read ${range}\n`);
  writeFileSync(log, `fio version 2 iolog\n${target} add\n${target} open\n${reads.join('')}${target} close\n`);
  const jobs = [
    ['read', `--read_iolog=${log}`, '--replay_no_stall=1', '--ioengine=libaio', '--iodepth=16', '--direct=1'],
    ['write', `--filename=${file}`, `--size=${bytesOf(list)}`, '--rw=write', '--bs=256k', '--end_fsync=1'],
  ] as const;
  return {
    label: 'fio',
    file,
    async copy() {
      let seconds = 0;
      for (const [kind, ...options] of jobs) {
        const { stdout } = await run('fio', [`--name=${kind}`, ...options, '--output-format=json'], CHECK);
        const {
          jobs: [job],
        } = JSON.parse(stdout) as { jobs: { job_runtime: number }[] };
        seconds += (job?.job_runtime ?? Number.NaN) / 1000;
      }
      return seconds;
    },
  };
}

interface Image {
  name: string;
  source: Source;
  /** `images`: the names of its image and of those that is based on. */
  base: (Source & { images: string[] }) | null;
  compression?: Compression;
}

/** The list is read in the time that is measured: that is a part of each backup. */
function imageOf(place: Place, { name, source, base, compression }: Image): Contender {
  const file = place.path(name);
  const sizeBytes = BigInt(place.bytes);
  const { signal } = new AbortController();
  return {
    label: `${base === null ? 'full' : 'incremental'} image${compression === undefined ? '' : `, ${compression}`}`,
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
        compression: compression ?? null,
        signal,
      });
      await checksumSegments(file, { signal });
      await flush(file);
      return undefined;
    },
  };
}

/**
 * All read from the disk: the buffers of the devices are emptied before. What the contender before has left to
 * write, such as the deletion of its file, is written first.
 */
async function measured({ copy, file }: Contender, place: Place): Promise<{ seconds: number; length: number }> {
  await run('sync', [], CHECK);
  for (const { target } of [place.first, place.half, place.large, place.small]) {
    await run('blockdev', ['--flushbufs', target], CHECK);
  }
  const started = performance.now();
  const counted = await copy();
  const seconds = (performance.now() - started) / 1000;
  const length = statSync(file).size;
  rmSync(file);
  rmSync(`${file}.ranges`, { force: true });
  return { seconds: counted ?? seconds, length };
}

/** Fails unless the chain of images has the snapshot's contents: a faster wrong copy is worth nothing. */
async function check({ path }: Place, names: string[], { target }: Source): Promise<void> {
  const { isSame, detail } = await compareImages({ chain: names.map(path) }, { device: target });
  if (!isSame) throw new Error(`${names[0]} is not the snapshot: ${detail}`);
}

const RATE = 'MiB/s';

function fullRow(
  name: 'backup-full',
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
  /** Of a volume that is half full. */
  half: Source;
  /** In each, a hundredth differs from the one before, in large or in small pieces. */
  large: Source;
  small: Source;
  runtime: RuntimeDirectory;
  path(name: string): string;
}

/** No block of a volume that is full has zeros alone, so that no program may leave anything out. */
async function makePlace(settings: Settings): Promise<Place> {
  const workspace = Workspace.make(settings, 'backup');
  const pool = await makePool(workspace, 'xfs');
  const plugin = await PluginProcess.start(settings, workspace, {
    env: { BLOCKDELTA_POOLS: `bench=${pool}` },
  });
  const bytes = settings.volumeBytes ?? SIZES[settings.size];
  const volumes = new Volumes(settings, plugin.driver, workspace);
  settings.say(`filling volumes of ${bytes / MIB} MiB`);
  /** Of every `stride` pieces of 1 MiB, one is filled, with bytes that compress to three quarters. */
  const filled = async (stride: number): Promise<Volume> => {
    const volume = await volumes.bringUp(await volumes.create(BLOCK, bytes));
    const file = openSync(volume.targetPath, 'r+');
    for (let at = 0; at < bytes; at += stride * MIB) {
      writeSync(file, Buffer.from(randomBytes((MIB / 4) * 3).toString('base64'), 'latin1'), 0, MIB, at);
    }
    fsyncSync(file);
    closeSync(file);
    return volume;
  };
  const volume = await filled(1);
  const restore = async (from = volume): Promise<Source> => {
    const snapshot = await volumes.snapshot(from);
    const restored = await volumes.bringUp(await volumes.create(BLOCK, bytes, snapshot));
    return { snapshot, target: restored.targetPath };
  };
  const half = await restore(await filled(2));
  const first = await restore();
  writeChanges(settings, volume, LARGE_CHANGE);
  const large = await restore();
  writeChanges(settings, volume, SMALL_CHANGE);
  const small = await restore();
  const path = (name: string): string => workspace.path(name);
  const runtime = await RuntimeDirectory.open(path('runtime'), { tryLock, report: settings.say });
  const { socketPath } = plugin.driver;
  return { bytes, socketPath, first, half, large, small, runtime, path };
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
