/**
 * Suite hostile: a stream while another client holds hundreds of streams that it does not read, or has just cancelled,
 * beside the same stream alone; and how the server's memory grows by them.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { Row } from '../../../src/tools/bench/row.js';
import type { Settings, Suite } from '../../../src/tools/bench/suite.js';
import { Workspace } from '../../../src/tools/bench/workspace.js';
import { ourServer } from '../streams/contenders.js';
import { patternSnapshotId } from '../streams/pattern.js';
import type { StreamReader } from '../streams/stream-reader.js';

const SIZES = {
  full: { entries: 2_000_000, warmUp: 500_000 },
  tiny: { entries: 50_000, warmUp: 20_000 },
} as const;
const HOSTILE_ENTRIES = 1_000_000_000;
const TARGET_RATIO = 2;
const TARGET_MIB = 64;

interface Attack {
  name: string;
  label: string;
  connections: number;
  streams: number;
  kind: 'unread' | 'reset';
}

const ATTACKS: readonly Attack[] = [
  { name: 'unread', label: 'open and unread', connections: 1, streams: 300, kind: 'unread' },
  {
    name: 'unread-many',
    label: 'open and unread, by 10 connections',
    connections: 10,
    streams: 30,
    kind: 'unread',
  },
  { name: 'reset', label: 'opened and reset', connections: 1, streams: 300, kind: 'reset' },
];

interface Timing {
  firstMs: number;
  totalMs: number;
}

interface Round {
  alone: Timing;
  under: Timing;
  growthMiB: number;
}

export const suite: Suite = {
  name: 'hostile',
  describes: 'a stream while another client holds hundreds that it does not read, or cancels them',

  async run(settings: Settings): Promise<Row[]> {
    const workspace = Workspace.make(settings, 'hostile');
    const found = new Map<Attack, Round[]>(ATTACKS.map((attack) => [attack, []]));
    for (let round = 0; round < settings.rounds; round += 1) {
      for (const attack of settings.random.shuffled(ATTACKS)) {
        const figures = await oneRound(settings, workspace, attack, `${attack.name}-${round}`);
        found.get(attack)?.push(figures);
        settings.say(
          `${attack.name}: ${shown(figures.under)}; alone ${shown(figures.alone)}; ` +
            `memory grew by ${figures.growthMiB.toFixed(1)} MiB`,
        );
      }
    }
    const { entries } = SIZES[settings.size];
    return ATTACKS.flatMap((attack) => rowsOf(attack, entries, found.get(attack) ?? []));
  },
};

function shown({ firstMs, totalMs }: Timing): string {
  return `${firstMs.toFixed(1)} ms to the first message, ${totalMs.toFixed(0)} in all`;
}

/** A server of its own for each round: memory that one attack left behind would hide growth. */
async function oneRound(settings: Settings, workspace: Workspace, attack: Attack, name: string): Promise<Round> {
  const { entries, warmUp } = SIZES[settings.size];
  const { server, reader } = await ourServer(settings, workspace, name);
  let hostile: ChildProcess | null = null;
  try {
    await timed(reader, warmUp);
    const alone = await timed(reader, entries);
    const before = server.meter.rssMiB();
    server.meter.resetPeak();
    hostile = await attackBy(attack, server.endpoint);
    const under = await timed(reader, entries);
    return { alone, under, growthMiB: server.meter.peakMiB() - before };
  } finally {
    hostile?.kill('SIGKILL');
    await server.stop();
  }
}

async function timed(reader: Pick<StreamReader, 'read'>, entries: number): Promise<Timing> {
  const { firstMs, totalMs } = await reader.read({ entries });
  return { firstMs, totalMs };
}

/** Resolves when its streams are open, or opened and reset. */
async function attackBy(attack: Attack, endpoint: string): Promise<ChildProcess> {
  const { connections, streams, kind } = attack;
  const child = fork(new URL('../streams/hostile-client.js', import.meta.url), [
    endpoint,
    String(connections),
    String(streams),
    patternSnapshotId(HOSTILE_ENTRIES),
    kind,
  ]);
  await once(child, 'message');
  return child;
}

function rowsOf(attack: Attack, entries: number, rounds: readonly Round[]): Row[] {
  const facts = {
    entries,
    connections: attack.connections,
    'streams of each': attack.streams,
  };
  const timing = (name: string, what: string, pick: (timing: Timing) => number): Row => ({
    name: `hostile-${attack.name}-${name}`,
    measures: `${what} of a stream of ${entries} entries while 300 others are ${attack.label}`,
    ours: { label: 'under attack', unit: 'ms', rounds: rounds.map(({ under }) => pick(under)) },
    peer: { label: 'alone', unit: 'ms', rounds: rounds.map(({ alone }) => pick(alone)) },
    target: {
      label: 'ratio',
      unit: '',
      rounds: rounds.map(({ under, alone }) => pick(under) / pick(alone)),
      judged: 'median',
      atMost: TARGET_RATIO,
    },
    facts,
  });
  const growth = rounds.map(({ growthMiB }) => growthMiB);
  return [
    timing('first', 'time to the first message', ({ firstMs }) => firstMs),
    timing('total', 'whole time', ({ totalMs }) => totalMs),
    {
      name: `hostile-${attack.name}-rss`,
      measures: `growth of the server's memory by 300 streams that are ${attack.label}`,
      ours: { label: 'growth', unit: 'MiB', rounds: growth },
      peer: { label: 'allowed', unit: 'MiB', rounds: growth.map(() => TARGET_MIB) },
      target: {
        label: 'growth',
        unit: ' MiB',
        rounds: growth,
        judged: 'median',
        atMost: TARGET_MIB,
      },
      facts,
    },
  ];
}
