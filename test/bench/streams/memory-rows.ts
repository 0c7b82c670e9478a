/** How the server's memory grows during one long stream, to a reader that never waits and to a slow one. */
import { setInterval as every } from 'node:timers';
import type { Row } from '../../../src/tools/bench/row.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { targetOf } from '../targets.js';
import { type Contender, ourServer } from './contenders.js';

/** A stream of 100 million entries takes seconds, with pauses half a minute: more rounds say little more. */
const MOST_ROUNDS = 3;
const SAMPLE_MS = 20;

const SIZES = {
  full: { entries: 100_000_000, warmUp: 10_000_000, streams: 2 },
  tiny: { entries: 200_000, warmUp: 20_000, streams: 1 },
} as const;

interface Reader {
  row: 'stream-rss-fast' | 'stream-rss-slow';
  label: string;
  pauseMs: number;
}

const READERS: readonly Reader[] = [
  { row: 'stream-rss-fast', label: 'a reader that never waits', pauseMs: 0 },
  { row: 'stream-rss-slow', label: 'a reader that waits 2 ms after each message', pauseMs: 2 },
];

interface Memory {
  before: number;
  during: number;
  seconds: number;
}

export async function memoryRows(settings: Settings, workspace: Workspace): Promise<Row[]> {
  const found = new Map<Reader, Memory[]>(READERS.map((reader) => [reader, []]));
  for (let round = 0; round < Math.min(settings.rounds, MOST_ROUNDS); round += 1) {
    for (const reader of settings.random.shuffled(READERS)) {
      const memory = await oneStream(settings, workspace, reader, `${reader.row}-${round}`);
      found.get(reader)?.push(memory);
      settings.say(
        `${reader.row}: ${memory.before.toFixed(1)} MiB before, ${memory.during.toFixed(1)} at most ` +
          `during ${memory.seconds.toFixed(1)} s`,
      );
    }
  }
  return READERS.map((reader) => rowOf(settings, reader, found.get(reader) ?? []));
}

/** A server of its own for each round: memory that one stream left behind would hide growth. */
async function oneStream(settings: Settings, workspace: Workspace, reader: Reader, name: string): Promise<Memory> {
  const { entries, warmUp, streams } = SIZES[settings.size];
  const contender = await ourServer(settings, workspace, name);
  try {
    // The allocator and the collector have found their level after the second.
    for (let stream = 0; stream < streams; stream += 1) await contender.reader.read({ entries: warmUp });
    return await watched(contender, () =>
      contender.reader.read({
        entries,
        ...(reader.pauseMs > 0 ? { pauseMs: reader.pauseMs } : {}),
      }),
    );
  } finally {
    await contender.server.stop();
  }
}

async function watched({ server }: Contender, work: () => Promise<unknown>): Promise<Memory> {
  const { meter } = server;
  const before = meter.rssMiB();
  meter.resetPeak();
  let during = before;
  const timer = every(() => {
    during = Math.max(during, meter.rssMiB());
  }, SAMPLE_MS);
  const started = performance.now();
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  const seconds = (performance.now() - started) / 1000;
  // The kernel's own peak also has what lies between two samples.
  return { before, during: Math.max(during, meter.peakMiB()), seconds };
}

function rowOf(settings: Settings, { row, label }: Reader, memory: readonly Memory[]): Row {
  const { entries, warmUp, streams } = SIZES[settings.size];
  const unit = 'MiB';
  return {
    name: row,
    measures: `highest RSS of the server during a stream of ${entries} entries to ${label}`,
    ours: { label: 'during', unit, rounds: memory.map(({ during }) => during) },
    peer: { label: 'before', unit, rounds: memory.map(({ before }) => before) },
    target: targetOf(
      row,
      memory.map(({ during, before }) => during - before),
    ),
    facts: {
      'warm-up entries': warmUp * streams,
      'longest stream s': Math.max(...memory.map(({ seconds }) => seconds)).toFixed(1),
    },
  };
}
