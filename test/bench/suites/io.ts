/**
 * Suite io: fio on a published raw block volume, beside a file of the pool's own file system and beside a plain loop
 * device on such a file, before and after a snapshot of each.
 */

import { readFileSync, rmSync, statSync } from 'node:fs';
import { majorOf, minorOf } from '../../../src/base/system/mountinfo.js';
import { BLOCK, Volumes } from '../../../src/tools/bench/measured-volumes.js';
import { PluginProcess } from '../../../src/tools/bench/plugin-process.js';
import { makePool, requireRoot } from '../../../src/tools/bench/pool.js';
import type { Row, Side } from '../../../src/tools/bench/row.js';
import { run } from '../../../src/tools/bench/run.js';
import { type Settings, type Suite, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { findProgram, isMissing } from '../programs.js';

const MIB = 2 ** 20;
const NS_PER_US = 1000;
const SIZES = {
  full: { bytes: 512 * MIB, seconds: 1, targetSeconds: 2 },
  tiny: { bytes: 16 * MIB, seconds: 0.2, targetSeconds: 0.2 },
} as const;

interface Job {
  name: string;
  measures: string;
  unit: string;
  options: readonly string[];
  better: 'higher' | 'lower';
  figure(report: FioJob): number;
}

/** The part of a job in fio's JSON that is read here. */
interface FioJob {
  read: { iops: number; bw_bytes: number };
  write: { iops: number; bw_bytes: number };
  sync: { lat_ns: { percentile?: Record<string, number>; mean: number } };
}

const QUEUE = ['--ioengine=libaio', '--iodepth=16', '--direct=1'];
const RANDOM_WRITE: Job = {
  name: 'random-write',
  measures: '4 KiB random writes a second, 16 in flight',
  unit: 'IOPS',
  options: ['--rw=randwrite', '--bs=4k', ...QUEUE],
  better: 'higher',
  figure: ({ write }) => write.iops,
};
const JOBS: readonly Job[] = [
  RANDOM_WRITE,
  {
    name: 'random-read',
    measures: '4 KiB random reads a second, 16 in flight',
    unit: 'IOPS',
    options: ['--rw=randread', '--bs=4k', ...QUEUE],
    better: 'higher',
    figure: ({ read }) => read.iops,
  },
  {
    name: 'sequential-write',
    measures: 'sequential writes of 1 MiB, 16 in flight',
    unit: 'MiB/s',
    options: ['--rw=write', '--bs=1m', ...QUEUE],
    better: 'higher',
    figure: ({ write }) => write.bw_bytes / MIB,
  },
  {
    name: 'sequential-read',
    measures: 'sequential reads of 1 MiB, 16 in flight',
    unit: 'MiB/s',
    options: ['--rw=read', '--bs=1m', ...QUEUE],
    better: 'higher',
    figure: ({ read }) => read.bw_bytes / MIB,
  },
  {
    name: 'fsync',
    measures: 'median time of fsync after each random write of 4 KiB',
    unit: 'µs',
    options: ['--rw=randwrite', '--bs=4k', '--ioengine=psync', '--fsync=1'],
    better: 'lower',
    figure: ({ sync }) => (sync.lat_ns.percentile?.['50.000000'] ?? sync.lat_ns.mean) / NS_PER_US,
  },
];

interface Place {
  label: string;
  /** What fio opens. */
  path: string;
  /** As cheap as the place has it; resolves to what removes it. */
  snapshot(): Promise<() => Promise<void>>;
}

export const suite: Suite = {
  name: 'io',
  describes: 'fio on a volume, beside a file of the pool and a plain loop device (root, fio)',

  async run(settings: Settings): Promise<Row[]> {
    requireRoot();
    const fio = findProgram('fio');
    if (isMissing(fio)) throw new Error(fio.missing);
    const workspace = Workspace.make(settings, 'io');
    const { bytes, seconds, targetSeconds } = SIZES[settings.size];
    const places = await makePlaces(settings, workspace, bytes);
    const rows: Row[] = [];
    for (const job of JOBS) {
      settings.say(`${job.name} in ${settings.rounds} rounds`);
      const time = job === RANDOM_WRITE ? targetSeconds : seconds;
      const found = await shuffledRounds(settings, places, ({ path }) => fioOnce(fio.program, job, path, bytes, time));
      rows.push(...rowsOf(job, places, found, factsOf(places, bytes), false));
    }
    settings.say(`${RANDOM_WRITE.name} after snapshots in ${settings.rounds} rounds`);
    const after = await shuffledRounds(settings, places, async ({ path, snapshot }) => {
      const remove = await snapshot();
      const figure = await fioOnce(fio.program, RANDOM_WRITE, path, bytes, seconds);
      await remove();
      return figure;
    });
    rows.push(...rowsOf(RANDOM_WRITE, places, after, factsOf(places, bytes), true));
    return rows;
  },
};

/** The volume first; each is full, so that no round allocates. */
async function makePlaces(settings: Settings, workspace: Workspace, bytes: number): Promise<[Place, Place, Place]> {
  const pool = await makePool(workspace, 'xfs');
  const plugin = await PluginProcess.start(settings, workspace, {
    env: { BLOCKDELTA_POOLS: `bench=${pool}` },
  });
  const volumes = new Volumes(settings, plugin.driver, workspace);
  const volume = await volumes.create(BLOCK, bytes);
  await volumes.bringUp(volume);
  const file = `${pool}/plain-file`;
  const behind = `${pool}/file-of-loop`;
  for (const path of [file, behind]) await run('truncate', ['-s', `${bytes}`, path], CHECK);
  const { stdout } = await run('losetup', ['--find', '--show', '--direct-io=on', behind], CHECK);
  settings.cleanup.defer(async () => {
    await run('losetup', ['--detach', stdout.trim()]);
  });
  const clone = (path: string) => async () => {
    const copy = `${path}.clone`;
    await run('sync', ['-d', path], CHECK);
    await run('cp', ['--reflink=always', path, copy], CHECK);
    return async () => rmSync(copy);
  };
  const places: [Place, Place, Place] = [
    {
      label: 'volume',
      path: volume.targetPath,
      async snapshot() {
        const id = await volumes.snapshot(volume);
        return () => volumes.deleteSnapshot(id);
      },
    },
    { label: 'file of the pool', path: file, snapshot: clone(file) },
    { label: 'plain loop device', path: stdout.trim(), snapshot: clone(behind) },
  ];
  for (const { path } of places) {
    const count = bytes / MIB;
    const options = ['bs=1M', `count=${count}`, 'oflag=direct', 'conv=notrunc', 'status=none'];
    await run('dd', ['if=/dev/urandom', `of=${path}`, ...options], CHECK);
  }
  return places;
}

const CHECK = { check: true };

async function fioOnce(program: string, job: Job, path: string, bytes: number, seconds: number): Promise<number> {
  const { stdout } = await run(
    program,
    [
      `--name=${job.name}`,
      `--filename=${path}`,
      ...job.options,
      `--size=${bytes}`,
      '--time_based=1',
      `--runtime=${Math.ceil(seconds * 1000)}ms`,
      '--randrepeat=0',
      '--output-format=json',
    ],
    CHECK,
  );
  // Warnings may stand before the report.
  const report = JSON.parse(stdout.slice(stdout.indexOf('{'))) as { jobs: FioJob[] };
  const [found] = report.jobs;
  if (found === undefined) throw new Error(`fio on ${path} reported no job`);
  return job.figure(found);
}

function isDirect({ path }: Place): boolean {
  const { rdev } = statSync(path);
  return readFileSync(`/sys/dev/block/${majorOf(rdev)}:${minorOf(rdev)}/loop/dio`, 'utf8').trim() === '1';
}

/** Kernels differ in which loop devices write directly, and after a snapshot they change their mind. */
function factsOf([volume, , loop]: [Place, Place, Place], bytes: number): Row['facts'] {
  return {
    'MiB of each': bytes / MIB,
    'direct I/O of the volume': isDirect(volume),
    'direct I/O of the loop device': isDirect(loop),
  };
}

/** The volume beside the file, and beside the loop device. */
function rowsOf(
  job: Job,
  [volume, file, loop]: [Place, Place, Place],
  found: Map<Place, number[]>,
  facts: Row['facts'],
  isAfterSnapshot: boolean,
): Row[] {
  const side = (place: Place): Side => ({
    label: place.label,
    unit: job.unit,
    rounds: found.get(place) ?? [],
  });
  const suffix = isAfterSnapshot ? '-after-snapshot' : '';
  const when = isAfterSnapshot ? ', right after a snapshot' : '';
  return [file, loop].map((peer) => {
    return {
      name: `io-${job.name}${suffix}${peer === loop ? '-loop' : ''}`,
      measures: `${job.measures}, on a volume beside a ${peer.label}${when}`,
      ours: side(volume),
      peer: side(peer),
      better: job.better,
      facts,
    };
  });
}
