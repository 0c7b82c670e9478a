/** Row thin-stream: a whole stream to a client that throws away what it gets, beside the scan alone. */
import type { Addon } from '../../../src/driver/native/addon.js';
import { readDelta } from '../../../src/tools/bench/list-reader.js';
import { type Row, ratios } from '../../../src/tools/bench/row.js';
import { type Settings, shuffledRounds } from '../../../src/tools/bench/suite.js';
import { CsiConnection } from '../../../src/tools/client/connection.js';
import { ServerProcess } from '../streams/server-process.js';
import { settled } from './duel.js';
import { BASE_DEVICE, type Metadata, TARGET_DEVICE } from './metadata.js';
import { scanOnce, thinSource } from './scan.js';

const AT_MOST = 1.3;
/** Enough for the server's code to be compiled. */
const WARM_UPS = 3;

export async function streamRow(settings: Settings, addon: Addon, metadata: Metadata, socket: string): Promise<Row> {
  const script = new URL('./server.js', import.meta.url).href;
  const server = await ServerProcess.fork(settings, script, socket, {
    arguments: [metadata.path, String(metadata.volumeBytes)],
  });
  const connection = new CsiConnection(server.socketPath);
  settings.cleanup.defer(() => connection.close());
  const stream = async (): Promise<number> =>
    (await readDelta(connection, String(BASE_DEVICE), String(TARGET_DEVICE))).totalMs;
  for (let warmUp = 0; warmUp < WARM_UPS; warmUp += 1) await stream();
  const source = thinSource(addon, metadata);
  const rpc = (): Promise<number> => settled(stream);
  const scan = (): Promise<number> => settled(() => scanOnce(addon, source).ms);
  const found = await shuffledRounds(settings, [rpc, scan], (contender) => contender());
  const sides = {
    ours: { label: 'RPC', unit: 'ms', rounds: found.get(rpc) ?? [] },
    peer: { label: 'scan', unit: 'ms', rounds: found.get(scan) ?? [] },
  };
  return {
    name: 'thin-stream',
    measures: 'whole GetMetadataDelta to a client that decodes nothing, 1 % random in memory',
    ...sides,
    target: {
      label: 'ratio',
      unit: '',
      rounds: ratios(sides),
      judged: 'median',
      atMost: AT_MOST,
    },
    facts: {},
  };
}
