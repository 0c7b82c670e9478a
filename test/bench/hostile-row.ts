/**
 * Rows hostile-*: what a stream costs its reader while another client's 300 streams are open that nobody
 * reads, or were just dropped, beside the same stream alone; and how the server's memory grows by them.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { packagePath } from '../../src/base/package-root.js';
import type { Row } from '../../src/bench/row.js';
import type { Settings } from '../../src/bench/suite.js';
import { Workspace } from '../support/workspace.js';
import { patternSnapshotId } from './pattern.js';
import { RawClient } from './raw-client.js';
import { ServerProcess } from './server-process.js';

const ENTRIES = 2_000_000;
const WARM_UP_ENTRIES = 500_000;
const HOSTILE_ENTRIES = 1_000_000_000;
const TARGET_RATIO = 3;
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

export async function hostileRows(settings: Settings): Promise<Row[]> {
  const workspace = new Workspace('bench');
  settings.cleanup.defer(() => workspace.dispose());
  const found = new Map<Attack, Round[]>(ATTACKS.map((attack) => [attack, []]));
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const attack of ATTACKS) {
      const socket = workspace.path(`${attack.name}-${round}.sock`);
      const figures = await oneRound(settings, attack, `unix://${socket}`);
      found.get(attack)?.push(figures);
      const shown = ({ firstMs, totalMs }: Timing): string =>
        `${firstMs.toFixed(1)} ms to the first message, ${totalMs.toFixed(0)} in all`;
      settings.say(
        `round ${round + 1}, ${attack.name}: ${shown(figures.under)}; alone ${shown(figures.alone)}; ` +
          `memory grew by ${figures.growthMiB.toFixed(1)} MiB`,
      );
    }
  }
  return ATTACKS.flatMap((attack) => rowsOf(attack, found.get(attack) ?? []));
}

/** A server of its own for every round: memory that one attack left behind would hide growth. */
async function oneRound(settings: Settings, attack: Attack, endpoint: string): Promise<Round> {
  const server = await ServerProcess.start('pattern-server', endpoint);
  settings.cleanup.defer(() => server.stop());
  const client = new RawClient(endpoint);
  let hostile: ChildProcess | null = null;
  try {
    await timed(client, WARM_UP_ENTRIES);
    const alone = await timed(client, ENTRIES);
    const before = server.rssMiB();
    server.resetPeak();
    hostile = await attackBy(attack, endpoint);
    const under = await timed(client, ENTRIES);
    return { alone, under, growthMiB: server.peakMiB() - before };
  } finally {
    hostile?.kill('SIGKILL');
    client.close();
    await server.stop();
  }
}

async function timed(client: RawClient, entries: number): Promise<Timing> {
  const started = performance.now();
  let firstMs = 0;
  await client.read(
    'GetMetadataAllocated',
    { snapshot_id: patternSnapshotId(entries) },
    {
      onMessage: () => {
        firstMs ||= performance.now() - started;
      },
    },
  );
  return { firstMs, totalMs: performance.now() - started };
}

/** Resolves when its streams are open, or opened and reset. */
async function attackBy(attack: Attack, endpoint: string): Promise<ChildProcess> {
  const { connections, streams, kind } = attack;
  const child = fork(packagePath('.test-build/test/bench/hostile-client.js'), [
    endpoint,
    String(connections),
    String(streams),
    patternSnapshotId(HOSTILE_ENTRIES),
    kind,
  ]);
  await once(child, 'message');
  return child;
}

function rowsOf(attack: Attack, rounds: readonly Round[]): Row[] {
  const facts = {
    entries: ENTRIES,
    connections: attack.connections,
    'streams of each': attack.streams,
  };
  const timing = (name: string, what: string, pick: (timing: Timing) => number): Row => ({
    name: `hostile-${attack.name}-${name}`,
    measures: `${what} of a stream of ${ENTRIES} entries while 300 others are ${attack.label}`,
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
