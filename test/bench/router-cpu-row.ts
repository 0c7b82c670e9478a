/** Row router-cpu: what an entry costs the router, beside what it costs the node that serves it directly. */
import { writeFileSync } from 'node:fs';
import type { Row } from '../../src/bench/row.js';
import type { Settings } from '../../src/bench/suite.js';
import { formatHostPort } from '../../src/config/tls.js';
import { Authority, tlsSettings } from '../support/certificates.js';
import { loopbackAddress } from '../support/loopback.js';
import { Workspace } from '../support/workspace.js';
import { orderOf } from './order.js';
import { patternSnapshotId } from './pattern.js';
import { RawClient } from './raw-client.js';
import { ServerProcess } from './server-process.js';

const ENTRIES = 4_000_000;
/** Until both are compiled: the router compiles little code, which runs once for each 16 KiB. */
const WARM_UPS = 5;
const RPC = 'GetMetadataAllocated';
const TARGET_RATIO = 0.6;

interface Contender {
  /** Whose time counts. */
  server: ServerProcess;
  client: RawClient;
  msPerMillion: number[];
  bytes: number;
}

export async function routerCpuRows(settings: Settings): Promise<Row[]> {
  const { cleanup, rounds, say } = settings;
  const workspace = new Workspace('bench');
  cleanup.defer(() => workspace.dispose());
  const authority = new Authority(workspace.directory);
  const address = formatHostPort(loopbackAddress());
  const node = await start(settings, 'pattern-server', workspace.path('node.sock'), {
    BLOCKDELTA_LISTEN_ADDRESS: address,
    ...tlsSettings(authority.issue('node', 'blockdelta-node')),
  });
  const list = workspace.path('nodes.json');
  writeFileSync(list, JSON.stringify({ nodes: [{ id: 'bench', address }] }));
  const router = await start(settings, 'router-server', workspace.path('router.sock'), {
    BLOCKDELTA_ROUTE_NODES: `file:${list}`,
    ...tlsSettings(authority.issue('router', 'blockdelta-router')),
  });
  for (let warmUp = 0; warmUp < WARM_UPS; warmUp += 1) {
    for (const contender of [node, router]) await measure(contender);
  }
  for (const contender of [node, router]) contender.msPerMillion = [];
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of orderOf([router, node], round)) await measure(contender);
    const [routed, direct] = [router, node].map((c) => c.msPerMillion.at(-1)?.toFixed(1));
    say(`round ${round + 1}: ${routed} in the router, ${direct} in the node that serves directly`);
  }
  if (node.bytes !== router.bytes) throw new Error('the router did not pass on the same bytes');
  return [rowOf(router, node)];
}

async function start(
  settings: Settings,
  script: string,
  socket: string,
  env: Record<string, string>,
): Promise<Contender> {
  const endpoint = `unix://${socket}`;
  const server = await ServerProcess.start(script, endpoint, [], { env });
  settings.cleanup.defer(() => server.stop());
  const client = new RawClient(endpoint);
  settings.cleanup.defer(() => client.close());
  return { server, client, msPerMillion: [], bytes: 0 };
}

async function measure(contender: Contender): Promise<void> {
  const { server, client } = contender;
  const before = await server.cpuMs();
  contender.bytes = await client.read(RPC, { snapshot_id: patternSnapshotId(ENTRIES) });
  contender.msPerMillion.push(((await server.cpuMs()) - before) / (ENTRIES / 1e6));
}

function rowOf(router: Contender, node: Contender): Row {
  const unit = 'ms/M entries';
  return {
    name: 'router-cpu',
    measures: 'CPU time of the router, all threads, per million entries of one stream',
    ours: { label: 'router', unit, rounds: router.msPerMillion },
    peer: { label: 'serving directly', unit, rounds: node.msPerMillion },
    target: {
      ...{ label: 'ratio', unit: '', judged: 'median', atMost: TARGET_RATIO },
      rounds: router.msPerMillion.map((ms, round) => ms / (node.msPerMillion[round] ?? 1)),
    },
    facts: { entries: ENTRIES, bytes: router.bytes },
  };
}
