/** Row thin-stream: a whole stream to a client that throws away what it gets, beside the scan alone. */

import type { Row } from '../../src/bench/row.js';
import { ServerProcess } from '../../src/bench/streams/server-process.js';
import type { Settings } from '../../src/bench/suite.js';
import type { Addon } from '../../src/native/addon.js';
import { orderOf } from './order.js';
import { RawClient } from './raw-client.js';
import { BASE_DEVICE, TARGET_DEVICE } from './thin-cases.js';
import { settled } from './thin-duel.js';
import { scanOnce, thinSource } from './thin-scan.js';

const STREAM_TARGET = 1.3;
/** Enough for the server's code to be compiled. */
const WARM_UPS = 3;

export async function streamRow(
  settings: Settings,
  addon: Addon,
  metadata: string,
  socket: string,
): Promise<Row> {
  const script = new URL('./thin-server.js', import.meta.url).href;
  const server = await ServerProcess.fork(settings, script, socket, { arguments: [metadata] });
  const client = new RawClient(server.endpoint);
  settings.cleanup.defer(() => client.close());
  const stream = async (): Promise<number> => {
    const started = performance.now();
    await client.read('GetMetadataDelta', {
      base_snapshot_id: String(BASE_DEVICE),
      target_snapshot_id: String(TARGET_DEVICE),
    });
    return performance.now() - started;
  };
  for (let warmUp = 0; warmUp < WARM_UPS; warmUp += 1) await stream();
  const source = thinSource(addon, metadata);
  const sides = { ours: [] as number[], peer: [] as number[] };
  const contenders = {
    ours: () => settled(stream),
    peer: () => settled(() => scanOnce(addon, source).ms),
  };
  for (let round = 0; round < settings.rounds; round += 1) {
    for (const side of orderOf(['ours', 'peer'] as const, round)) {
      sides[side].push(await contenders[side]());
    }
    const last = [sides.ours, sides.peer].map((times) => times.at(-1)?.toFixed(1));
    settings.say(`thin-stream round ${round + 1}: ${last.join(' and ')} ms`);
  }
  return {
    name: 'thin-stream',
    measures:
      'wall time of GetMetadataDelta to a client that decodes nothing, 1 % random in memory',
    ours: { label: 'RPC', unit: 'ms', rounds: sides.ours },
    peer: { label: 'scan', unit: 'ms', rounds: sides.peer },
    target: {
      label: 'ratio',
      unit: '',
      rounds: sides.ours.map((ours, round) => ours / (sides.peer[round] ?? Number.NaN)),
      judged: 'median',
      atMost: STREAM_TARGET,
    },
    facts: {},
  };
}
