/** How long the server's event loop is late while four streams run at full speed: what other calls wait for. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Row } from '../../../src/tools/bench/row.js';
import type { Settings } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { targetOf } from '../targets.js';
import { ourServer } from './contenders.js';
import type { LoopDelay } from './server-process.js';
import { StreamReader } from './stream-reader.js';

const STREAMS = 4;
const SIZES = {
  full: { entries: 10_000_000, idleMs: 1000 },
  tiny: { entries: 50_000, idleMs: 50 },
};

export async function loopDelayRow(settings: Settings, workspace: Workspace): Promise<Row> {
  const { entries, idleMs } = SIZES[settings.size];
  const { server } = await ourServer(settings, workspace, 'loop');
  const readers = await Promise.all(Array.from({ length: STREAMS }, () => StreamReader.open(settings, server)));
  const load = (): Promise<unknown> => Promise.all(readers.map((reader) => reader.read({ entries })));
  await load();
  const under: LoopDelay[] = [];
  const idle: LoopDelay[] = [];
  const measure = async (work: () => Promise<unknown>): Promise<LoopDelay> => {
    await server.loopDelay();
    await work();
    return server.loopDelay();
  };
  for (let round = 0; round < settings.rounds; round += 1) {
    under.push(await measure(load));
    idle.push(await measure(() => delay(idleMs)));
  }
  const p99 = under.map((each) => each.p99);
  settings.say(`event-loop delay with four streams, p99 ms: ${p99.map((ms) => ms.toFixed(1)).join(' ')}`);
  return {
    name: 'stream-loop-delay',
    measures: 'delay of the event loop with four streams at full speed, 99th percentile',
    ours: { label: 'four streams', unit: 'ms', rounds: p99 },
    peer: { label: 'idle', unit: 'ms', rounds: idle.map((each) => each.p99) },
    target: targetOf('stream-loop-delay', p99),
    facts: {
      client: readers[0]?.client ?? '',
      'entries of each stream': entries,
      'longest ms': Math.max(...under.map(({ max }) => max)).toFixed(1),
    },
  };
}
