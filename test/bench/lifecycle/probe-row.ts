/** Row lifecycle-probe: one Probe after the other, beside a grpc-js server that does nothing but answer. */

import type { Row } from '../../../src/tools/bench/row.js';
import { median } from '../../../src/tools/bench/statistics.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import type { Workspace } from '../../../src/tools/bench/workspace.js';
import { CsiConnection } from '../../../src/tools/client/connection.js';
import { ServerProcess } from '../streams/server-process.js';

const CALLS = { full: 2000, tiny: 50 } as const;

export async function probeRow(settings: Settings, workspace: Workspace, ours: CsiConnection): Promise<Row> {
  const script = new URL('./empty-server.js', import.meta.url).href;
  const server = await ServerProcess.fork(settings, script, workspace.path('empty.sock'));
  const empty = new CsiConnection(server.socketPath);
  settings.cleanup.defer(() => empty.close());
  const calls = CALLS[settings.size];
  const once = async (connection: CsiConnection): Promise<number> => {
    const times: number[] = [];
    for (let call = 0; call < calls; call += 1) {
      const started = performance.now();
      await connection.unary('Probe', {});
      times.push((performance.now() - started) * 1000);
    }
    return median(times);
  };
  // One unmeasured round lets V8 compile both servers and the client.
  for (const each of [ours, empty, ours, empty]) await once(each);
  const found = await shuffledRounds(settings, [ours, empty], once);
  return {
    name: 'lifecycle-probe',
    measures: 'median time of Probe by one client, beside an empty handler of grpc-js',
    ours: { label: 'Probe', unit: 'µs', rounds: found.get(ours) ?? [] },
    peer: { label: 'empty handler', unit: 'µs', rounds: found.get(empty) ?? [] },
    facts: { 'calls a round': calls },
  };
}
