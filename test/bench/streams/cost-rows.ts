/** CPU of the server for each entry, and throughput: beside C++ gRPC, objects through proto-loader, a plain socket. */
import { missingSide, type Row, type Side } from '../../../src/tools/bench/row.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { targetOf } from '../targets.js';
import {
  assertSameList,
  type Contender,
  cppServer,
  isServed,
  objectServer,
  ourServer,
  plainServer,
  rawServer,
} from './contenders.js';
import { ENTRIES_PER_MESSAGE } from './pattern.js';
import type { StreamReading } from './stream-reader.js';

const CPU_UNIT = 'ms/M entries';
const SMALL_MESSAGE = 256;

/**
 * Objects cost so much more that fewer entries give as good a figure. `warmUp`: V8 goes on optimizing for some ten
 * thousand writes, so a server that has just been started costs up to twice as much; a fact of the row says how much.
 */
const SIZES = {
  full: {
    large: 10_000_000,
    small: 4_000_000,
    objects: 1_000_000,
    compared: 1_000_000,
    warmUp: 100_000_000,
    warmUpObjects: 5_000_000,
  },
  tiny: {
    large: 40_000,
    small: 20_000,
    objects: 20_000,
    compared: 10_000,
    warmUp: 40_000,
    warmUpObjects: 20_000,
  },
} as const;

export async function costRows(settings: Settings, workspace: Workspace): Promise<Row[]> {
  const sizes = SIZES[settings.size];
  const ours = await ourServer(settings, workspace);
  const cpp = await cppServer(settings, workspace);
  const objects = await objectServer(settings, workspace);
  const raw = await rawServer(settings, workspace);
  const plain = await plainServer(settings, workspace);
  const grpc = [ours, plain, cpp].filter(isServed);
  const cold = new Map<Contender, number>();
  for (const contender of grpc) {
    const entries = sizes.large;
    const { cpuMs } = await contender.reader.read({ entries, perMessage: ENTRIES_PER_MESSAGE });
    cold.set(contender, Math.round((cpuMs / entries) * 1e7) / 10);
  }
  for (const perMessage of [ENTRIES_PER_MESSAGE, SMALL_MESSAGE]) {
    await assertSameList(grpc, sizes.compared, perMessage);
  }
  await assertSameList([ours, objects], Math.min(sizes.compared, sizes.objects), 0);
  for (const { reader } of grpc) {
    await reader.read({ entries: sizes.warmUp, perMessage: ENTRIES_PER_MESSAGE });
  }
  await objects.reader.read({ entries: sizes.warmUpObjects, perMessage: 0 });
  settings.say('all servers send the same list, and are warm');

  const all = [ours, plain, cpp, raw].filter(isServed);
  const large = await readings(settings, all, sizes.large, ENTRIES_PER_MESSAGE);
  const small = await readings(settings, grpc, sizes.small, SMALL_MESSAGE);
  const asObjects = await readings(settings, [ours, objects], sizes.objects, 0);

  const facts = {
    client: ours.reader.client,
    entries: sizes.large,
    'warm-up entries': sizes.warmUp,
    'ms/M entries of the first stream': cold.get(ours) ?? 0,
    'rss MiB': Math.round(ours.server.meter.peakMiB()),
  };
  const peerSide = (found: Map<Contender, StreamReading[]>, entries: number): Side =>
    isServed(cpp) ? cpuSide(cpp, found.get(cpp) ?? [], entries) : missingSide('C++ gRPC', CPU_UNIT, cpp.missing);
  const cppFacts = isServed(cpp)
    ? {
        'C++ ms/M entries of the first stream': cold.get(cpp) ?? 0,
        'C++ rss MiB': Math.round(cpp.server.meter.peakMiB()),
      }
    : {};
  return [
    {
      name: 'stream-cpu-8192',
      measures: 'CPU of the server, all threads, for a million entries in messages of 8192',
      ours: cpuSide(ours, large.get(ours) ?? [], sizes.large),
      peer: peerSide(large, sizes.large),
      facts: { ...facts, ...cppFacts },
    },
    {
      name: 'stream-cpu-256',
      measures: 'CPU of the server, all threads, for a million entries in messages of 256',
      ours: cpuSide(ours, small.get(ours) ?? [], sizes.small),
      peer: peerSide(small, sizes.small),
      facts: { ...facts, entries: sizes.small },
    },
    framesRow(ENTRIES_PER_MESSAGE, sizes.large, ours, plain, large),
    framesRow(SMALL_MESSAGE, sizes.small, ours, plain, small),
    throughputRow(ratesOf(large.get(ours)), raw, isServed(raw) ? ratesOf(large.get(raw)) : [], facts),
    {
      name: 'stream-cpu-objects',
      measures: 'CPU of the server for a million entries, beside objects through proto-loader',
      ours: cpuSide(ours, asObjects.get(ours) ?? [], sizes.objects),
      peer: cpuSide(objects, asObjects.get(objects) ?? [], sizes.objects),
      facts: { client: ours.reader.client, entries: sizes.objects },
    },
  ];
}

async function readings(
  settings: Settings,
  contenders: readonly Contender[],
  entries: number,
  perMessage: number,
): Promise<Map<Contender, StreamReading[]>> {
  const found = new Map<Contender, StreamReading[]>(contenders.map((each) => [each, []]));
  await shuffledRounds(settings, contenders, async (contender) => {
    const reading = await contender.reader.read({ entries, perMessage });
    found.get(contender)?.push(reading);
    return reading.cpuMs;
  });
  const shown = [...found].map(([{ label }, each]) => {
    const figures = each.map(({ cpuMs }) => (cpuMs / (entries / 1e6)).toFixed(1));
    return `${label} ${figures.join(' ')}`;
  });
  settings.say(`${perMessage || ENTRIES_PER_MESSAGE} a message, ${CPU_UNIT}: ${shown.join('; ')}`);
  return found;
}

function cpuSide({ label }: Contender, found: readonly StreamReading[], entries: number): Side {
  return { label, unit: CPU_UNIT, rounds: found.map(({ cpuMs }) => cpuMs / (entries / 1e6)) };
}

/** What frame-proof.ts and call-stream.ts of the server bring. */
function framesRow(
  perMessage: number,
  entries: number,
  ours: Contender,
  plain: Contender,
  found: Map<Contender, StreamReading[]>,
): Row {
  return {
    name: `stream-frames-${perMessage}`,
    measures: `CPU of the server for a million entries in messages of ${perMessage}, written as frames, beside grpc-js's writes`,
    ours: cpuSide(ours, found.get(ours) ?? [], entries),
    peer: cpuSide(plain, found.get(plain) ?? [], entries),
    facts: { client: ours.reader.client, entries },
  };
}

function throughputRow(
  ours: number[],
  raw: Contender | { missing: string },
  rawRates: number[],
  facts: Row['facts'],
): Row {
  const unit = 'MB/s';
  const best = rawRates.length === 0 ? [] : [Math.max(...ours) / Math.max(...rawRates)];
  return {
    name: 'stream-throughput',
    measures: 'bytes of messages a second, one stream, messages of 8192 entries',
    ours: { label: 'blockdelta', unit, rounds: ours },
    peer: isServed(raw) ? { label: raw.label, unit, rounds: rawRates } : missingSide('raw socket', unit, raw.missing),
    better: 'higher',
    target: targetOf('stream-throughput', best),
    facts,
  };
}

/** MB/s. */
function ratesOf(readings: readonly StreamReading[] = []): number[] {
  return readings.map(({ bytes, totalMs }) => bytes / 1e3 / totalMs);
}
