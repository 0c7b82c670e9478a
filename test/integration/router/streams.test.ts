/**
 * Fifty streams of mixed speed through the router, from three servers in three network namespaces: every byte
 * arrives, and the router's memory does not grow. The lists are generated, so that they are long; all else is
 * the plugin's own.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { readAllocated } from '../../../src/tools/bench/list-reader.js';
import { Cleanup } from '../../../src/tools/client/cleanup.js';
import { CsiConnection } from '../../../src/tools/client/connection.js';
import { ProcessMeter } from '../../bench/process-meter.js';
import { forkPatternServer, patternSnapshotId } from '../../bench/streams/pattern.js';
import type { ServerProcess } from '../../bench/streams/server-process.js';
import { Authority, tlsSettings } from '../../support/certificates.js';
import { TestNetwork } from '../../support/network.js';
import { isNightly } from '../../support/nightly.js';
import { Plugin } from '../../support/plugin.js';
import { test } from '../../support/running-plugin.js';
import { skipUnlessRoot, Workspace } from '../../support/workspace.js';

const NODES = [1, 2, 3];
const STREAMS = 50;
const LONG_MS = 120_000;
/** About 1.5 MB on the wire; the slowest reader takes a second, and in a nightly run some. */
const ENTRIES = isNightly ? 400_000 : 120_000;
/** After every message, ms: one reader in five does not pause. */
const PAUSES = [undefined, 1, 5, 20, 60];
/** What the streams hold together, and what the collector leaves for later. */
const GROWTH_MIB = 160;

const idOf = (node: number): string => `node-${node}`;

const place = new Workspace('streams');
let network: TestNetwork;
let router: Plugin;
const cleanup = new Cleanup();
const servers: ServerProcess[] = [];

before(async () => {
  if (skipUnlessRoot !== false) return;
  network = await TestNetwork.create(NODES.length);
  const authority = new Authority(place.directory);
  for (const node of NODES) {
    const address = { BLOCKDELTA_LISTEN_ADDRESS: `${network.address(node)}:9810` };
    const files = tlsSettings(authority.issueNode(idOf(node), idOf(node)));
    const env = { ...address, BLOCKDELTA_NODE_ID: idOf(node), ...files };
    const socket = place.path(`${idOf(node)}.sock`);
    const by = network.on(node);
    servers.push(await forkPatternServer({ cleanup }, socket, { env, by }));
  }
  const nodes = NODES.map((node) => ({ id: idOf(node), address: `${network.address(node)}:9810` }));
  writeFileSync(place.path('nodes.json'), JSON.stringify({ nodes }));
  router = await Plugin.route({
    socket: place.path('router.sock'),
    by: network.on(0),
    env: {
      BLOCKDELTA_ROUTE_NODES: `file:${place.path('nodes.json')}`,
      ...tlsSettings(authority.issue('router', 'blockdelta-router')),
    },
  }).ready();
});

after(async () => {
  await router?.kill();
  await cleanup.runAll();
  await network?.dispose();
  place.dispose();
});

/** Of all messages of a stream, in their order and with their lengths. */
async function digestOf(client: CsiConnection, node: number, pauseMs?: number): Promise<string> {
  const hash = createHash('sha256');
  const onMessage = (message: Buffer): void => {
    hash.update(`${message.length} `).update(message);
  };
  await readAllocated(
    client,
    patternSnapshotId(ENTRIES, { nodeId: idOf(node) }),
    pauseMs === undefined ? { onMessage } : { onMessage, pauseMs },
  );
  return hash.digest('hex');
}

async function round(expected: string): Promise<void> {
  const clients = Array.from({ length: 5 }, () => new CsiConnection(router.endpoint.slice('unix://'.length)));
  try {
    const digests = await Promise.all(
      Array.from({ length: STREAMS }, (_, index) => {
        const client = clients[index % clients.length] as CsiConnection;
        const node = NODES[index % NODES.length] as number;
        return digestOf(client, node, PAUSES[Math.floor(index / 3) % PAUSES.length]);
      }),
    );
    assert.deepEqual(new Set(digests), new Set([expected]));
  } finally {
    for (const client of clients) client.close();
  }
}

test('fifty streams of mixed speed arrive byte for byte, in bounded memory', async () => {
  const direct = new CsiConnection(servers[0]?.socketPath ?? '');
  const expected = await digestOf(direct, 1);
  direct.close();
  await round(expected);
  const meter = new ProcessMeter(Number(router.process.pid));
  const before = meter.rssMiB();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, meter.rssMiB());
  }, 50);
  let rounds = 0;
  try {
    const end = Date.now() + (isNightly ? LONG_MS : 0);
    do {
      await round(expected);
      rounds += 1;
    } while (Date.now() < end);
  } finally {
    clearInterval(watch);
  }
  console.log(`# ${rounds} rounds, ${before.toFixed(0)} MiB before, ${peak.toFixed(0)} at most`);
  assert.ok(peak - before < GROWTH_MIB, `memory grew from ${before} to ${peak} MiB`);
});
