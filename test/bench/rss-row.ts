/** Rows rss-fast and rss-slow: the server's memory before and during a stream of 20 million entries. */
import { setInterval as every } from 'node:timers';
import type { Row } from '../../src/bench/row.js';
import type { Settings } from '../../src/bench/suite.js';
import { Workspace } from '../support/workspace.js';
import { patternSnapshotId } from './pattern.js';
import { RawClient } from './raw-client.js';
import { ServerProcess } from './server-process.js';

const ENTRIES = 20_000_000;
const WARM_UP_ENTRIES = 1_000_000;
const SAMPLE_MS = 20;
const SLOW_READER_PAUSE_MS = 2;
const TARGET_MIB = 32;
const RPC = 'GetMetadataAllocated';

interface Reader {
  name: string;
  label: string;
  pauseMs: number | null;
}

interface Memory {
  before: number;
  during: number;
  growth: number;
  seconds: number;
}

const READERS: readonly Reader[] = [
  { name: 'rss-fast', label: 'a reader that never waits', pauseMs: null },
  {
    name: 'rss-slow',
    label: `a reader that waits ${SLOW_READER_PAUSE_MS} ms after every message`,
    pauseMs: SLOW_READER_PAUSE_MS,
  },
];

export async function rssRows(settings: Settings): Promise<Row[]> {
  const workspace = new Workspace('bench');
  settings.cleanup.defer(() => workspace.dispose());
  const found = new Map<Reader, Memory[]>(READERS.map((reader) => [reader, []]));
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const reader of READERS) {
      const memory = await oneStream(
        settings,
        reader,
        workspace.path(`${reader.name}-${round}.sock`),
      );
      found.get(reader)?.push(memory);
      settings.say(
        `round ${round + 1}, ${reader.name}: ${memory.before.toFixed(1)} MiB before, ` +
          `${memory.during.toFixed(1)} at most during ${memory.seconds.toFixed(1)} s`,
      );
    }
  }
  return READERS.map((reader) => rowOf(reader, found.get(reader) ?? []));
}

/** A server of its own for every round: memory that one stream left behind would hide growth. */
async function oneStream(settings: Settings, reader: Reader, socket: string): Promise<Memory> {
  const endpoint = `unix://${socket}`;
  const server = await ServerProcess.start('pattern-server', endpoint);
  settings.cleanup.defer(() => server.stop());
  const client = new RawClient(endpoint);
  try {
    await client.read(RPC, { snapshot_id: patternSnapshotId(WARM_UP_ENTRIES) });
    return await watched(server, () =>
      client.read(
        RPC,
        { snapshot_id: patternSnapshotId(ENTRIES) },
        reader.pauseMs === null ? {} : { pauseMs: reader.pauseMs },
      ),
    );
  } finally {
    client.close();
    await server.stop();
  }
}

async function watched(server: ServerProcess, work: () => Promise<number>): Promise<Memory> {
  const before = server.rssMiB();
  server.resetPeak();
  let during = before;
  const timer = every(() => {
    during = Math.max(during, server.rssMiB());
  }, SAMPLE_MS);
  const started = performance.now();
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  const seconds = (performance.now() - started) / 1000;
  // The kernel's own peak also has what lies between two samples.
  during = Math.max(during, server.peakMiB());
  return { before, during, growth: during - before, seconds };
}

function rowOf(reader: Reader, memory: readonly Memory[]): Row {
  return {
    name: reader.name,
    measures: `highest RSS of the server during a stream of ${ENTRIES} entries to ${reader.label}`,
    ours: { label: 'during', unit: 'MiB', rounds: memory.map(({ during }) => during) },
    peer: { label: 'before', unit: 'MiB', rounds: memory.map(({ before }) => before) },
    target: {
      label: 'growth',
      unit: ' MiB',
      rounds: memory.map(({ growth }) => growth),
      judged: 'max',
      atMost: TARGET_MIB,
    },
    facts: {
      entries: ENTRIES,
      'warm-up entries': WARM_UP_ENTRIES,
      'longest stream s': Math.max(...memory.map(({ seconds }) => seconds)).toFixed(1),
    },
  };
}
