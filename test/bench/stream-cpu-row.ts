/** Row stream-cpu: what an entry costs the server, beside the same list sent as objects. */

import type { Row } from '../../src/bench/row.js';
import type { Settings } from '../../src/bench/suite.js';
import { Workspace } from '../support/workspace.js';
import { orderOf } from './order.js';
import { patternSnapshotId } from './pattern.js';
import { RawClient } from './raw-client.js';
import { ServerProcess } from './server-process.js';
import { readRanges } from './wire-reader.js';

const ENTRIES = 4_000_000;
/** Enough for both to be compiled and for their pools to be warm. */
const WARM_UP_ENTRIES = 500_000;
const RPC = 'GetMetadataAllocated';

interface Contender {
  server: ServerProcess;
  client: RawClient;
  msPerMillion: number[];
  bytes: number;
}

export async function streamCpuRows(settings: Settings): Promise<Row[]> {
  const { cleanup, rounds, say } = settings;
  const workspace = new Workspace('bench');
  cleanup.defer(() => workspace.dispose());
  const ours = await start(settings, 'pattern-server', workspace.path('ours.sock'));
  const peer = await start(settings, 'object-server', workspace.path('peer.sock'));
  const checked = await assertSameList(ours, peer);
  say(`warmed up: both lists decode to the same ${checked} entries`);
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of orderOf([ours, peer], round)) await measure(contender);
    say(
      `round ${round + 1}: ${[ours, peer].map((c) => c.msPerMillion.at(-1)?.toFixed(1)).join(' and ')}`,
    );
  }
  return [rowOf(ours, peer)];
}

async function start(settings: Settings, script: string, socket: string): Promise<Contender> {
  const endpoint = `unix://${socket}`;
  const server = await ServerProcess.start(script, endpoint);
  settings.cleanup.defer(() => server.stop());
  const client = new RawClient(endpoint);
  settings.cleanup.defer(() => client.close());
  return { server, client, msPerMillion: [], bytes: 0 };
}

async function measure(contender: Contender): Promise<void> {
  const { server, client } = contender;
  const before = await server.cpuMs();
  contender.bytes = await client.read(RPC, { snapshot_id: patternSnapshotId(ENTRIES) });
  const used = (await server.cpuMs()) - before;
  contender.msPerMillion.push(used / (ENTRIES / 1e6));
}

/** Both servers warm, and the answer of both decoded and compared entry by entry. */
async function assertSameList(ours: Contender, peer: Contender): Promise<number> {
  const [mine, theirs] = await Promise.all([decoded(ours.client), decoded(peer.client)]);
  if (mine.length !== 2 * WARM_UP_ENTRIES || mine.some((value, i) => value !== theirs[i])) {
    throw new Error('the two servers do not send the same list');
  }
  return WARM_UP_ENTRIES;
}

async function decoded(client: RawClient): Promise<number[]> {
  const values: number[] = [];
  const onMessage = (message: Buffer): void =>
    readRanges(message, (offset, size) => values.push(offset, size));
  await client.read(RPC, { snapshot_id: patternSnapshotId(WARM_UP_ENTRIES) }, { onMessage });
  return values;
}

function rowOf(ours: Contender, peer: Contender): Row {
  const unit = 'ms/M entries';
  return {
    name: 'stream-cpu',
    measures: 'CPU time of the server process, all threads, per million entries of one stream',
    ours: { label: 'wire bytes', unit, rounds: ours.msPerMillion },
    peer: { label: 'objects', unit, rounds: peer.msPerMillion },
    target: null,
    facts: { entries: ENTRIES, 'our bytes': ours.bytes, "peer's bytes": peer.bytes },
  };
}
