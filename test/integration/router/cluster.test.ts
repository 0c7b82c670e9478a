/**
 * A plugin in a network namespace, and the router in another: real processes, devices, cables and certificates.
 * memory/router.test.ts has the calls to several nodes.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { StatusCode } from '../../../src/base/errors.js';
import { BlockWriter } from '../../support/block-writer.js';
import { Authority, tlsSettings } from '../../support/certificates.js';
import type { CsiClient, Message } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { TestNetwork } from '../../support/network.js';
import { MIB, Orchestrator } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { seededRandom } from '../../support/random.js';
import { statusOf } from '../../support/refusal.js';
import { test } from '../../support/running-plugin.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../../support/workspace.js';

const NODE = 'node-1';
const BLOCK = 4096;

const place = new Workspace('router');
let network: TestNetwork;
let authority: Authority;
let plugin: Plugin | undefined;
let router: Plugin;

const client = (): CsiClient => plugin?.client ?? assert.fail();
const nodes = () => `file:${place.path('nodes.json')}`;

before(async () => {
  if (skipUnlessRoot !== false) return;
  network = await TestNetwork.create(1);
  authority = new Authority(place.directory);
  const address = `${network.address(1)}:9810`;
  const files = tlsSettings(authority.issueNode('node', NODE));
  plugin = await Plugin.start(place, {
    pools: `main=${makePoolFileSystem(place, 'xfs', 1024)}`,
    by: network.on(1),
    env: { BLOCKDELTA_NODE_ID: NODE, BLOCKDELTA_LISTEN_ADDRESS: address, ...files },
  });
  writeFileSync(place.path('nodes.json'), JSON.stringify({ nodes: [{ id: NODE, address }] }));
  const settings = tlsSettings(authority.issue('router', 'blockdelta-router'));
  router = await Plugin.route({
    socket: place.path('router.sock'),
    by: network.on(0),
    env: { BLOCKDELTA_ROUTE_NODES: nodes(), ...settings },
  }).ready();
});

after(async () => {
  await router?.kill();
  await plugin?.kill();
  await network?.dispose();
  place.dispose();
});

/** The controller through the router, the node by its own socket, as sidecars and kubelet do it. */
const orchestrator = new Orchestrator(place, () => Object.create(router.client, { node: { value: client().node } }));

/** Writes every other block of a range. */
function scatter(writer: BlockWriter, from: number, count: number): void {
  for (let index = 0; index < count; index += 1) {
    writer.write((from + 2 * index) * BLOCK, Buffer.alloc(BLOCK, 1 + (index % 255)));
  }
}

test('a volume is expanded, snapshotted, compared and restored through the router', async () => {
  const volume = await orchestrator.create('life', { sizeBytes: 64 * MIB });
  const writer = new BlockWriter(await orchestrator.bringUp(volume), volume.sizeBytes, seededRandom('router'));
  scatter(writer, 0, 1500);
  const base = await orchestrator.snapshot(volume, 'base');
  scatter(writer, 4000, 1500);
  const snapshot = await orchestrator.snapshot(volume, 'target');
  writer.close();
  for (const options of [{}, { max_results: 7 }, { starting_offset: 4100 * BLOCK }]) {
    const delta = await router.client.delta(base, snapshot, options);
    assert.ok(delta.ranges.length > 0);
    assert.deepEqual(delta, await client().delta(base, snapshot, options));
    const whole = await router.client.allocated(snapshot, options);
    assert.deepEqual(whole, await client().allocated(snapshot, options));
  }
  assert.equal(await orchestrator.expand(volume, 128 * MIB), 128 * MIB);
  await orchestrator.nodeExpand(volume);
  const spec = { snapshotId: snapshot, sizeBytes: volume.sizeBytes };
  await orchestrator.remove(volume, await orchestrator.create('restored', spec));
  for (const each of [base, snapshot]) await orchestrator.deleteSnapshot(each);
  assert.deepEqual(await orchestrator.volumeIds(), []);
});

test('a node whose cable is pulled is UNAVAILABLE before the deadline of the call', async () => {
  const volume = await orchestrator.create('cut');
  const { controller } = router.client;
  network.cut(1);
  const get = () => controller.ControllerGetVolume({ volume_id: volume.id }, { deadlineMs: 60_000 });
  // The first one finds an open connection, on which nothing is answered.
  const named = { code: StatusCode.UNAVAILABLE, details: /node 'node-1' at 10\.99\.0\.1:9810/ };
  await assert.rejects(get(), named);
  await assert.rejects(get(), named);
  const short = controller.ControllerGetVolume({ volume_id: volume.id }, { deadlineMs: 200 });
  await assert.rejects(short, ({ code }: { code: number }) =>
    [StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED].includes(code as 14),
  );
  network.join(1);
  await eventually('calls are answered', async () => (await statusOf(get())) === 'OK');
  await orchestrator.delete(volume);
});

test('certificates are replaced on both sides while a stream runs', async () => {
  const volume = await orchestrator.create('rotation', { sizeBytes: 64 * MIB });
  const target = await orchestrator.bringUp(volume);
  const writer = new BlockWriter(target, volume.sizeBytes, seededRandom('rotation'));
  scatter(writer, 0, 8000);
  const snapshot_id = await orchestrator.snapshot(volume, 'rotation');
  writer.close();
  const expected = await client().allocated(snapshot_id);
  // A message for each entry, and a client that does not read: the stream waits half-way.
  const stream = router.client.open('GetMetadataAllocated', { snapshot_id, max_results: 1 });
  let count = 0;
  stream.on('data', (message: Message) => {
    count += (message['block_metadata'] as Message[]).length;
  });
  await once(stream, 'data');
  stream.pause();
  const next = new Authority(place.directory, 'next');
  next.issueNode('node', NODE);
  next.issue('router', 'blockdelta-router');
  // Node and router use the new ones when none of the old connections is left for a new call.
  while (router.log.split('the TLS files have changed').length < 2) await delay(50);
  while (!plugin?.log.includes('the TLS files have changed')) await delay(50);
  const { controller } = router.client;
  const get = () => controller.ControllerGetVolume({ volume_id: volume.id });
  await eventually('calls are answered', async () => (await statusOf(get())) === 'OK');
  stream.resume();
  await once(stream, 'end');
  assert.equal(count, expected.ranges.length);
  await orchestrator.takeDown(volume);
  await orchestrator.deleteSnapshot(snapshot_id);
  await orchestrator.delete(volume);
});

test('a router that the node does not trust does not reach it, and is not ready', async () => {
  // It trusts the node, which does not trust it.
  const stranger = new Authority(place.directory, 'stranger');
  const files = stranger.issue('stranger', 'blockdelta-router');
  writeFileSync(files.ca, readFileSync(place.path('node-ca.pem')));
  const other = Plugin.route({
    socket: place.path('stranger.sock'),
    by: network.on(0),
    env: { BLOCKDELTA_ROUTE_NODES: nodes(), ...tlsSettings(files) },
  });
  try {
    while (!other.log.includes('the node cannot be reached')) await delay(50);
    assert.equal((await other.client.identity.Probe({}))['ready'].value, false);
    await assert.rejects(other.client.controller.ListVolumes({}), { code: StatusCode.UNAVAILABLE });
  } finally {
    await other.kill();
  }
  assert.match(plugin?.log ?? '', /a peer was refused on the TCP listener/);
});

test('the router stops with 0 at SIGTERM', async () => {
  assert.equal(await router.stop(), 0);
});
