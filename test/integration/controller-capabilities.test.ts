/** What the controller advertises works, and what it does not serve is UNIMPLEMENTED. */
import assert from 'node:assert/strict';

import * as grpc from '@grpc/grpc-js';
import { clientServices, csiProto } from '../../src/csi/proto.js';
import type { Message } from '../support/csi-client.js';
import { createRequest } from '../support/orchestrator.js';
import { refused, statusOf } from '../support/refusal.js';
import { runPlugin, test } from '../support/running-plugin.js';

/** The RPCs that each advertised capability promises. */
const PROMISES: Readonly<Record<string, readonly string[]>> = {
  CREATE_DELETE_VOLUME: ['CreateVolume', 'DeleteVolume'],
  PUBLISH_UNPUBLISH_VOLUME: ['ControllerPublishVolume', 'ControllerUnpublishVolume'],
  LIST_VOLUMES: ['ListVolumes'],
  GET_CAPACITY: ['GetCapacity'],
  CREATE_DELETE_SNAPSHOT: ['CreateSnapshot', 'DeleteSnapshot'],
  LIST_SNAPSHOTS: ['ListSnapshots'],
  EXPAND_VOLUME: ['ControllerExpandVolume'],
  GET_VOLUME: ['ControllerGetVolume'],
  MODIFY_VOLUME: ['ControllerModifyVolume'],
  GET_SNAPSHOT: ['GetSnapshot'],
  GET_VOLUME_HEALTH: ['ControllerGetVolumeHealth'],
  LIST_VOLUME_HEALTH: ['ControllerListVolumeHealth'],
};
const ALWAYS = ['ControllerGetCapabilities', 'ValidateVolumeCapabilities'];
/** Capabilities that are a way to behave and not an RPC. */
const BEHAVIOURS = [
  'CLONE_VOLUME',
  'PUBLISH_READONLY',
  'LIST_VOLUMES_PUBLISHED_NODES',
  'SINGLE_NODE_MULTI_WRITER',
  'VOLUME_CONDITION',
];
/** Served at every level of the specification, and advertised from 1.13 on. */
const LATER = ['ControllerGetVolumeHealth', 'ControllerListVolumeHealth'];

function rpcsOf(service: string): string[] {
  return Object.keys(csiProto().root.lookupService(`csi.v1.${service}`).methods);
}

const running = runPlugin('capabilities', { pools: { main: 'xfs' } });

async function advertised(): Promise<string[]> {
  const answer = await running.client.controller.ControllerGetCapabilities({});
  return answer['capabilities'].map((capability: Message) => {
    assert.equal(capability['type'], 'rpc', 'CC1: every entry has rpc');
    return String(capability['rpc'].type);
  });
}

const call = (service: 'Controller' | 'GroupController', rpc: string): Promise<unknown> =>
  callByName(running.plugin.endpoint, service, rpc);

test('CC1: each capability is known and advertised once', async () => {
  const found = await advertised();
  assert.equal(new Set(found).size, found.length);
  for (const name of found) {
    assert.ok(name in PROMISES || BEHAVIOURS.includes(name), `${name} is not known`);
  }
});

test('CC1: the answer is the same each time, also after a restart', async () => {
  const before = await advertised();
  assert.deepEqual(await advertised(), before);
  await running.restart();
  assert.deepEqual(await advertised(), before);
});

test('G10: the RPCs that are advertised are implemented, and no others of this level', async () => {
  const found = await advertised();
  const promised = [...ALWAYS, ...found.flatMap((name) => PROMISES[name] ?? [])];
  for (const rpc of rpcsOf('Controller').filter((name) => !LATER.includes(name))) {
    const status = await statusOf(call('Controller', rpc));
    const isImplemented = status !== 'UNIMPLEMENTED';
    assert.equal(isImplemented, promised.includes(rpc), `${rpc} answers ${status}`);
  }
});

test('G2, G3, G11: an RPC that is not advertised is UNIMPLEMENTED, with a message', async () => {
  const found = await advertised();
  const promised = [...ALWAYS, ...found.flatMap((name) => PROMISES[name] ?? [])];
  const served = [...promised, ...LATER];
  for (const rpc of rpcsOf('Controller').filter((name) => !served.includes(name))) {
    await refused(call('Controller', rpc), 'UNIMPLEMENTED', new RegExp(rpc));
  }
});

test('G10: a group controller that is not advertised is UNIMPLEMENTED', async () => {
  const { capabilities } = await running.client.identity.GetPluginCapabilities({});
  const types = capabilities.map((capability: Message) => capability['service']?.type);
  if (types.includes('GROUP_CONTROLLER_SERVICE')) return;
  for (const rpc of rpcsOf('GroupController')) {
    await refused(call('GroupController', rpc), 'UNIMPLEMENTED');
  }
});

test('G17: an RPC and a service nobody knows are UNIMPLEMENTED', async () => {
  for (const path of ['/csi.v1.Controller/FlyToTheMoon', '/csi.v9.Controller/CreateVolume']) {
    await refused(callPath(running.plugin.endpoint, path), 'UNIMPLEMENTED');
  }
});

test('G17: fields of a later version in a request are passed over', async () => {
  const type = csiProto().root.lookupType('csi.v1.CreateVolumeRequest');
  const request = type.encode(type.fromObject(createRequest('newer'))).finish();
  // Field 99, a varint of 1.
  const newer = Buffer.concat([request, Buffer.from([0x98, 0x06, 0x01])]);
  await callPath(running.plugin.endpoint, '/csi.v1.Controller/CreateVolume', newer);
});

test('a request that is no message of its type is refused and harms nothing', async () => {
  const broken = Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x01]);
  const call = callPath(running.plugin.endpoint, '/csi.v1.Controller/CreateVolume', broken);
  await refused(call, ['INTERNAL', 'INVALID_ARGUMENT']);
  await running.client.identity.Probe({});
});

/** An empty request to any RPC of the proto. */
function callByName(endpoint: string, service: string, rpc: string): Promise<unknown> {
  const definition = clientServices()[service as 'Controller'][rpc];
  if (definition === undefined) throw new Error(`${service} has no ${rpc}`);
  return callPath(endpoint, definition.path);
}

function callPath(endpoint: string, path: string, request = Buffer.alloc(0)): Promise<unknown> {
  const client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
  });
  const same = (bytes: Buffer): Buffer => bytes;
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, same, same, request, (error, answer) => {
      client.close();
      if (error === null) resolve(answer);
      else reject(error);
    });
  });
}
