/** How the cost of a stream grows with the size of its messages, the number of streams, and the volume's size. */

import type { Curve, CurveLine } from '../../../src/tools/bench/row.js';
import { median } from '../../../src/tools/bench/statistics.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { type Contender, cppServer, isServed, ourServer } from './contenders.js';
import { StreamReader } from './stream-reader.js';

const SIZES = {
  full: {
    entries: 4_000_000,
    perMessage: [16, 64, 256, 1024, 4096, 8192, 16384],
    streams: [1, 2, 4, 8, 16],
    extents: [1e4, 1e5, 1e6, 1e7],
    calls: 21,
  },
  tiny: {
    entries: 20_000,
    perMessage: [256, 8192],
    streams: [1, 2],
    extents: [1e3, 1e4],
    calls: 2,
  },
} as const;
const CPU = 'server CPU (ms per million entries)';

export async function streamCurves(settings: Settings, workspace: Workspace): Promise<Curve[]> {
  const ours = await ourServer(settings, workspace);
  const cpp = await cppServer(settings, workspace);
  const contenders = [ours, cpp].filter(isServed);
  for (const { reader } of contenders) await reader.read({ entries: SIZES[settings.size].entries });
  return [
    await byMessageSize(settings, contenders),
    await byStreams(settings, contenders),
    await byExtents(settings, contenders),
  ];
}

async function byMessageSize(settings: Settings, contenders: readonly Contender[]): Promise<Curve> {
  const { entries, perMessage } = SIZES[settings.size];
  const lines = await measured(settings, contenders, perMessage, async ({ reader }, each) => {
    const { cpuMs } = await reader.read({ entries, perMessage: each });
    return cpuMs / (entries / 1e6);
  });
  return {
    name: 'stream-message-size',
    title: 'Server CPU by entries in a message',
    x: 'entries in a message',
    y: CPU,
    lines,
  };
}

async function byStreams(settings: Settings, contenders: readonly Contender[]): Promise<Curve> {
  const { entries, streams } = SIZES[settings.size];
  const readers = new Map<Contender, StreamReader[]>();
  for (const contender of contenders) {
    const own = Array.from({ length: Math.max(...streams) }, () => StreamReader.open(settings, contender.server));
    readers.set(contender, await Promise.all(own));
  }
  const lines = await measured(settings, contenders, streams, async (contender, count) => {
    const own = (readers.get(contender) ?? []).slice(0, count);
    const before = await contender.server.meter.cpuMs();
    // The same work in all, however many share it.
    await Promise.all(own.map((reader) => reader.read({ entries: Math.ceil(entries / count) })));
    return ((await contender.server.meter.cpuMs()) - before) / (entries / 1e6);
  });
  return {
    name: 'stream-streams',
    title: 'Server CPU by streams at the same time',
    x: 'streams',
    y: CPU,
    lines,
  };
}

async function byExtents(settings: Settings, contenders: readonly Contender[]): Promise<Curve> {
  const { extents, calls } = SIZES[settings.size];
  const lines = await measured(settings, contenders, extents, async ({ reader }, entries) => {
    const times: number[] = [];
    for (let call = 0; call < (entries > 1e5 ? 1 : calls); call += 1) {
      times.push((await reader.read({ entries })).totalMs);
    }
    return median(times);
  });
  const [ours] = contenders;
  if (ours !== undefined) lines.push(await firstMessages(settings, ours, extents, calls));
  return {
    name: 'stream-extents',
    title: 'Time of a whole stream by its entries',
    x: 'entries',
    y: 'time (ms)',
    lines,
  };
}

/** Does not grow: shown beside the whole stream. */
async function firstMessages(
  settings: Settings,
  ours: Contender,
  extents: readonly number[],
  calls: number,
): Promise<CurveLine> {
  const [line] = await measured(settings, [ours], extents, async ({ reader }, entries) => {
    const times: number[] = [];
    for (let call = 0; call < (entries > 1e5 ? 1 : calls); call += 1) {
      times.push((await reader.read({ entries })).firstMs);
    }
    return median(times);
  });
  return { label: `${ours.label}, first message`, points: line?.points ?? [] };
}

/** Each contender at each point in each round, in random order. */
async function measured(
  { rounds, random }: Settings,
  contenders: readonly Contender[],
  points: readonly number[],
  measure: (contender: Contender, point: number) => Promise<number>,
): Promise<CurveLine[]> {
  const figures = new Map<string, number[]>();
  const tasks = contenders.flatMap((contender) => points.map((point) => ({ contender, point })));
  for (let round = 0; round < rounds; round += 1) {
    for (const { contender, point } of random.shuffled(tasks)) {
      const key = `${contender.label} ${point}`;
      figures.set(key, [...(figures.get(key) ?? []), await measure(contender, point)]);
    }
  }
  return contenders.map(({ label }) => ({
    label,
    points: points.map((x) => ({ x, rounds: figures.get(`${label} ${x}`) ?? [] })),
  }));
}
