/**
 * At each level of the specification, with and without ControllerPublish: exactly the right capabilities are
 * advertised, all of them are known at that level, and each of them works. Settings of names and places.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { CsiLevel } from '../../src/base/csi/capabilities.js';
import { nodeKey } from '../../src/base/csi/handles.js';
import { checkoutText } from '../support/checkout-text.js';
import type { Message } from '../support/csi-client.js';
import { MemoryPlugin } from '../support/memory-plugin.js';
import { createRequest } from '../support/orchestrator.js';
import { allRpcs, decodeMessage, encodeMessage, RawConnection, type RpcDescription } from '../support/raw-call.js';
import { refused, statusOf } from '../support/refusal.js';

type Kind = 'plugin' | 'volumeExpansion' | 'controller' | 'group' | 'node';
type Advertised = Readonly<Record<Kind, readonly string[]>>;

const LEVELS: readonly CsiLevel[] = ['1.10', '1.11', '1.12', '1.13'];

/** The enum values of each level, with their numbers. */
const KNOWN = JSON.parse(checkoutText('test/fixtures/csi-capability-values.json')) as Readonly<
  Record<CsiLevel, Record<Kind, Record<string, number>>>
>;

/** What is advertised: always, from a level on, or up to 1.12. */
const CAPABILITIES: Advertised = {
  plugin: [
    'CONTROLLER_SERVICE',
    'GROUP_CONTROLLER_SERVICE',
    'SNAPSHOT_METADATA_SERVICE',
    'VOLUME_ACCESSIBILITY_CONSTRAINTS',
    '1.13 SNAPSHOT_ACCESSIBILITY_CONSTRAINTS',
  ],
  volumeExpansion: ['ONLINE'],
  controller: [
    'CLONE_VOLUME',
    'CREATE_DELETE_SNAPSHOT',
    'CREATE_DELETE_VOLUME',
    'EXPAND_VOLUME',
    'GET_CAPACITY',
    'GET_VOLUME',
    'LIST_SNAPSHOTS',
    'LIST_VOLUMES',
    'MODIFY_VOLUME',
    'SINGLE_NODE_MULTI_WRITER',
    '-1.12 VOLUME_CONDITION',
    '1.12 GET_SNAPSHOT',
    '1.13 GET_VOLUME_HEALTH',
    '1.13 LIST_VOLUME_HEALTH',
    'publish LIST_VOLUMES_PUBLISHED_NODES',
    'publish PUBLISH_READONLY',
    'publish PUBLISH_UNPUBLISH_VOLUME',
  ],
  group: ['CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT'],
  node: [
    'EXPAND_VOLUME',
    'GET_VOLUME_STATS',
    'SINGLE_NODE_MULTI_WRITER',
    'STAGE_UNSTAGE_VOLUME',
    '-1.12 VOLUME_CONDITION',
    '1.13 GET_STORAGE_HEALTH',
    '1.13 GET_VOLUME_HEALTH',
  ],
};

let plugin: MemoryPlugin | undefined;
let connection: RawConnection;
after(() => plugin?.stop());

async function startAt(level: CsiLevel | null, publish: 'on' | 'off', more = {}): Promise<MemoryPlugin> {
  await plugin?.stop();
  const env = {
    BLOCKDELTA_CONTROLLER_PUBLISH: publish,
    ...(level === null ? {} : { BLOCKDELTA_CSI_LEVEL: level }),
    ...more,
  };
  plugin = new MemoryPlugin({ env });
  await plugin.start();
  connection = new RawConnection(plugin.endpoint);
  return plugin;
}

async function ask(name: string, request: Message = {}): Promise<Message> {
  const rpc = allRpcs().find((found) => found.name === name) as RpcDescription;
  const answer = await connection.unary(rpc.path, encodeMessage(rpc.requestType, request));
  return decodeMessage(rpc.responseType, answer);
}

/** CC1: every entry has `rpc`, and comes once. */
async function rpcTypes(rpc: string): Promise<string[]> {
  const { capabilities } = await ask(rpc);
  const types = capabilities.map((capability: Message) => String(capability['rpc'].type));
  assert.equal(new Set(types).size, types.length);
  return types.sort();
}

async function advertised(): Promise<Advertised> {
  const { capabilities } = await ask('GetPluginCapabilities');
  const typesOf = (member: string): string[] =>
    capabilities
      .filter((capability: Message) => capability[member] != null)
      .map((capability: Message) => String(capability[member].type))
      .sort();
  return {
    plugin: typesOf('service'),
    volumeExpansion: typesOf('volume_expansion'),
    controller: await rpcTypes('ControllerGetCapabilities'),
    group: await rpcTypes('GroupControllerGetCapabilities'),
    node: await rpcTypes('NodeGetCapabilities'),
  };
}

function expected(kind: Kind, level: CsiLevel, publish: 'on' | 'off'): string[] {
  return CAPABILITIES[kind]
    .flatMap((entry) => {
      const [name = '', when = ''] = entry.split(' ').reverse();
      const isHere = when === 'publish' ? publish === 'on' : when.startsWith('-') ? `-${level}` <= when : level >= when;
      return isHere ? [name] : [];
    })
    .sort();
}

const isServed = (name: string, publish: 'on' | 'off'): boolean =>
  publish === 'on' || !/^Controller(Unp|P)ublishVolume$/.test(name);

async function checkAdvertised(level: CsiLevel, publish: 'on' | 'off'): Promise<void> {
  const found = await advertised();
  for (const kind of Object.keys(CAPABILITIES) as Kind[]) {
    assert.deepEqual(found[kind], expected(kind, level, publish));
    for (const value of found[kind]) {
      assert.ok(value in KNOWN[level][kind], `ID6: ${kind} ${value} is unknown at ${level}`);
    }
  }
  assert.deepEqual(await advertised(), found, 'the same each time');
}

/** An empty request shows it: it is refused or answered, but never UNIMPLEMENTED. */
async function checkServed(publish: 'on' | 'off'): Promise<void> {
  assert.equal(allRpcs().length, 36);
  for (const rpc of allRpcs()) {
    const call = connection.call(rpc, Buffer.alloc(0));
    if (isServed(rpc.name, publish)) {
      const status = await statusOf(call);
      assert.ok(['OK', 'INVALID_ARGUMENT'].includes(status), `${rpc.name} answers ${status}`);
    } else {
      // Not in gRPC's own words, which speak of a method that is not there.
      await refused(call, 'UNIMPLEMENTED', new RegExp(`\\.${rpc.name} is not implemented`));
    }
  }
}

/** VolumeCondition is part of the answers exactly where it is advertised. */
async function checkCondition(level: CsiLevel, publish: 'on' | 'off'): Promise<void> {
  const { volume } = await ask('CreateVolume', createRequest('levels'));
  const { entries } = await ask('ListVolumes');
  const got = await ask('ControllerGetVolume', { volume_id: volume.volume_id });
  for (const status of [entries[0].status, got['status']]) {
    const condition = status?.volume_condition ?? null;
    if (level === '1.13') assert.equal(condition, null);
    else assert.deepEqual(condition, { abnormal: false, message: 'the volume is healthy' });
  }
  if (publish === 'on') assert.deepEqual(entries[0].status.published_node_ids, []);
}

for (const publish of ['off', 'on'] as const) {
  for (const level of LEVELS) {
    const title = `at level ${level}, controller publish ${publish}`;
    test(`ID5, ID6, ID12, E20, CC1, NC1, GG1: the plugin ${title} advertises exactly what that level knows`, async () => {
      await startAt(level, publish);
      await checkAdvertised(level, publish);
    });
    test(`G10, G11: the plugin ${title} exposes every RPC, and serves all but what is off`, () => checkServed(publish));
    test(`LV7: the plugin ${title} reports conditions where it advertises them`, () => checkCondition(level, publish));
  }
}

test('ID5: the level without a setting is 1.12, and controller publish off', async () => {
  await startAt(null, 'off');
  await checkAdvertised('1.12', 'off');
});

test('CV27: names and places are those that were set; ids consist of the short name of the node and random bytes', async () => {
  const name = `a${'-b.c'.repeat(15)}-d`;
  assert.equal(name.length, 63);
  const nodeId = 'rack:7/node';
  const { client, orchestrator } = await startAt('1.13', 'off', {
    BLOCKDELTA_DRIVER_NAME: name,
    BLOCKDELTA_TOPOLOGY_KEY: 'example.com/host',
    BLOCKDELTA_NODE_ID: nodeId,
  });
  assert.equal((await ask('GetPluginInfo'))['name'], name);
  const ids = new Set<string>();
  // Also of one name that is free again.
  for (const each of ['first', 'second', 'first']) {
    const volume = await orchestrator.create(each);
    ids.add(volume.id);
    assert.ok(volume.id.startsWith(`vol-${nodeKey(nodeId)}-`), volume.id);
    const place = [{ segments: { 'example.com/host': nodeKey(nodeId) } }];
    const { entries } = await client.controller.ListVolumes({});
    assert.deepEqual(entries[0].volume.accessible_topology, place);
    const snapshotId = await orchestrator.snapshot(volume, each);
    const { entries: snapshots } = await client.controller.ListSnapshots({});
    assert.deepEqual(snapshots[0].snapshot.accessible_topology, place);
    await orchestrator.deleteSnapshot(snapshotId);
    await orchestrator.delete(volume);
  }
  assert.equal(ids.size, 3);
});

test('G17: an unknown RPC and an unknown service are UNIMPLEMENTED', async () => {
  for (const path of ['/csi.v1.Controller/FlyToTheMoon', '/csi.v9.Controller/CreateVolume']) {
    await refused(connection.unary(path, Buffer.alloc(0)), 'UNIMPLEMENTED');
  }
});

test('G17: fields of a later version in a request are passed over', async () => {
  const request = encodeMessage('CreateVolumeRequest', createRequest('newer'));
  // Field 99, a varint of 1.
  const newer = Buffer.concat([request, Buffer.from([0x98, 0x06, 0x01])]);
  await connection.unary('/csi.v1.Controller/CreateVolume', newer);
});
