/**
 * Three plugins in three network namespaces, and the router in a fourth: real processes, devices, cables and
 * certificates.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../src/base/errors.js';
import { nodeKey, nodeKeyOf } from '../../src/domain/identifiers.js';
import { BlockWriter } from '../support/block-writer.js';
import { Authority, type CertificateFiles, tlsSettings } from '../support/certificates.js';
import type { CsiClient, Message } from '../support/csi-client.js';
import { TestNetwork } from '../support/network.js';
import { type HeldVolume, MIB, Orchestrator } from '../support/orchestrator.js';
import { Plugin } from '../support/plugin.js';
import { seededRandom } from '../support/random.js';
import { RouterProcess } from '../support/router-process.js';
import { test } from '../support/running-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const NODES = [1, 2, 3];
const idOf = (node: number): string => `node-${node}`;
const BLOCK = 4096;

interface ClusterNode {
  readonly workspace: Workspace;
  readonly pools: string;
  plugin: Plugin;
}

let network: TestNetwork;
let place: Workspace;
let authority: Authority;
let nodeFiles: CertificateFiles;
let router: RouterProcess;
const nodes = new Map<number, ClusterNode>();

const clusterNode = (node: number): ClusterNode => {
  const found = nodes.get(node);
  assert.ok(found);
  return found;
};

function startPlugin(node: number, workspace: Workspace, pools: string): Promise<Plugin> {
  return Plugin.start(workspace, {
    pools,
    by: network.on(node),
    env: {
      BLOCKDELTA_NODE_ID: idOf(node),
      BLOCKDELTA_LISTEN_ADDRESS: `${network.address(node)}:9810`,
      ...tlsSettings(nodeFiles),
    },
  });
}

before(async () => {
  if (skipUnlessRoot !== false) return;
  place = new Workspace('router');
  network = await TestNetwork.create(NODES.length);
  authority = new Authority(place.directory);
  nodeFiles = authority.issue('node', 'blockdelta-node');
  for (const node of NODES) {
    const workspace = new Workspace(idOf(node));
    const pools = `main=${makePoolFileSystem(workspace, 'xfs', 1024)}`;
    nodes.set(node, { workspace, pools, plugin: await startPlugin(node, workspace, pools) });
  }
  const list = NODES.map((node) => ({ id: idOf(node), address: `${network.address(node)}:9810` }));
  writeFileSync(place.path('nodes.json'), JSON.stringify({ nodes: list }));
  router = await RouterProcess.start({
    socket: place.path('router.sock'),
    by: network.on(0),
    env: {
      BLOCKDELTA_ROUTE_NODES: `file:${place.path('nodes.json')}`,
      ...tlsSettings(authority.issue('router', 'blockdelta-router')),
    },
  });
});

after(async () => {
  await router?.kill();
  for (const { plugin } of nodes.values()) await plugin.kill();
  await network?.dispose();
  for (const { workspace } of nodes.values()) workspace.dispose();
  place?.dispose();
});

/** The controller through the router, the node by its own socket, as sidecars and kubelet do it. */
function orchestratorOn(node: number): Orchestrator {
  const { workspace, plugin } = clusterNode(node);
  const client = Object.create(router.client, {
    node: { value: plugin.client.node },
  }) as CsiClient;
  return new Orchestrator(workspace, () => client);
}

async function createOn(node: number, name: string, sizeBytes = 64 * MIB): Promise<HeldVolume> {
  const { volume } = await router.client.controller.CreateVolume({
    name,
    capacity_range: { required_bytes: sizeBytes },
    volume_capabilities: [{ block: {}, access_mode: { mode: 'SINGLE_NODE_WRITER' } }],
    accessibility_requirements: {
      requisite: [{ segments: { 'blockdelta.csi/node': idOf(node) } }],
    },
  });
  return orchestratorOn(node).hold(name, volume as Message);
}

/** Writes every other block of a range. */
function scatter(writer: BlockWriter, from: number, count: number): void {
  for (let index = 0; index < count; index += 1) {
    writer.write((from + 2 * index) * BLOCK, Buffer.alloc(BLOCK, 1 + (index % 255)));
  }
}

test('volumes live on their nodes, and are expanded, snapshotted, compared and restored through the router', async () => {
  for (const node of NODES) {
    const direct = clusterNode(node).plugin.client;
    const orchestrator = orchestratorOn(node);
    const volume = await createOn(node, `life-${node}`);
    assert.equal(nodeKeyOf(volume.id), nodeKey(idOf(node)));
    const target = await orchestrator.bringUp(volume);
    const writer = new BlockWriter(target, volume.sizeBytes, seededRandom('router'));
    scatter(writer, 0, 1500);
    const base = await orchestrator.snapshot(volume, `base-${node}`);
    scatter(writer, 4000, 1500);
    const snapshot = await orchestrator.snapshot(volume, `target-${node}`);
    writer.close();
    for (const options of [{}, { max_results: 7 }, { starting_offset: 4100 * BLOCK }]) {
      const delta = await router.client.delta(base, snapshot, options);
      assert.ok(delta.ranges.length > 0);
      assert.deepEqual(delta, await direct.delta(base, snapshot, options));
      const whole = await router.client.allocated(snapshot, options);
      assert.deepEqual(whole, await direct.allocated(snapshot, options));
    }
    const grown = await orchestrator.expand(volume, 128 * MIB);
    assert.equal(grown, 128 * MIB);
    await orchestrator.nodeExpand(volume);
    const copy = await orchestrator.create(`restored-${node}`, {
      snapshotId: snapshot,
      sizeBytes: volume.sizeBytes,
    });
    assert.equal(nodeKeyOf(copy.id), nodeKey(idOf(node)));
    await orchestrator.takeDown(volume);
    for (const each of [copy, volume]) await orchestrator.delete(each);
    for (const each of [base, snapshot]) await orchestrator.deleteSnapshot(each);
  }
  assert.deepEqual((await router.client.controller.ListVolumes({}))['entries'], []);
});

test('a node whose cable is pulled is UNAVAILABLE before the deadline of the call', async () => {
  const volume = await createOn(3, 'cut');
  const { controller } = router.client;
  network.cut(3);
  const get = () =>
    controller.ControllerGetVolume({ volume_id: volume.id }, { deadlineMs: 60_000 });
  // The first one finds an open connection, on which nothing is answered.
  const named = { code: StatusCode.UNAVAILABLE, details: /node 'node-3' at 10\.99\.0\.3:9810/ };
  await assert.rejects(get(), named);
  await assert.rejects(get(), named);
  const short = controller.ControllerGetVolume({ volume_id: volume.id }, { deadlineMs: 200 });
  await assert.rejects(short, ({ code }: { code: number }) =>
    [StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED].includes(code as 14),
  );
  network.join(3);
  while ((await get().catch(() => null)) === null) await delay(50);
  await orchestratorOn(3).delete(volume);
});

test('certificates are replaced on both sides while a stream runs', async () => {
  const orchestrator = orchestratorOn(1);
  const volume = await createOn(1, 'rotation');
  const target = await orchestrator.bringUp(volume);
  const writer = new BlockWriter(target, volume.sizeBytes, seededRandom('rotation'));
  scatter(writer, 0, 8000);
  const snapshot_id = await orchestrator.snapshot(volume, 'rotation');
  writer.close();
  const expected = await clusterNode(1).plugin.client.allocated(snapshot_id);
  // A message for each entry, and a client that does not read: the stream waits half-way.
  const stream = router.client.open('GetMetadataAllocated', { snapshot_id, max_results: 1 });
  let count = 0;
  stream.on('data', (message: Message) => {
    count += (message['block_metadata'] as Message[]).length;
  });
  await once(stream, 'data');
  stream.pause();
  const next = new Authority(place.directory, 'next');
  next.issue('node', 'blockdelta-node');
  next.issue('router', 'blockdelta-router');
  // Nodes and router use the new ones when none of the old connections is left for a new call.
  while (router.log.split('the TLS files have changed').length < 2) await delay(50);
  for (const { plugin } of nodes.values()) {
    while (!plugin.log.includes('the TLS files have changed')) await delay(50);
  }
  const { controller } = router.client;
  while (
    (await controller.ControllerGetVolume({ volume_id: volume.id }).catch(() => null)) === null
  ) {
    await delay(50);
  }
  stream.resume();
  await once(stream, 'end');
  assert.equal(count, expected.ranges.length);
  await orchestrator.takeDown(volume);
  await orchestrator.deleteSnapshot(snapshot_id);
  await orchestrator.delete(volume);
});

test('a router that the nodes do not trust reaches none of them, and is not ready', async () => {
  // It trusts the nodes, and they do not trust it.
  const stranger = new Authority(place.directory, 'stranger');
  const files = stranger.issue('stranger', 'blockdelta-router');
  writeFileSync(files.ca, readFileSync(place.path('node-ca.pem')));
  const other = RouterProcess.launch({
    socket: place.path('stranger.sock'),
    by: network.on(0),
    env: {
      BLOCKDELTA_ROUTE_NODES: `file:${place.path('nodes.json')}`,
      ...tlsSettings(files),
    },
  });
  try {
    while (other.log.split('the node cannot be reached').length <= NODES.length) await delay(50);
    assert.equal((await other.client.identity.Probe({}))['ready'].value, false);
    await assert.rejects(other.client.controller.ListVolumes({}), { code: StatusCode.UNAVAILABLE });
  } finally {
    await other.kill();
  }
  assert.match(clusterNode(1).plugin.log, /a peer was refused on the TCP listener/);
});

test('the router stops with 0 at SIGTERM', async () => {
  assert.equal(await router.stop(), 0);
});
