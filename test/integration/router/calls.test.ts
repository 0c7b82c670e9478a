/** What the router keeps of a call on its way to a node and back: bytes, status, deadline, cancellation, pace. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type * as grpc from '@grpc/grpc-js';
import { nodeKey } from '../../../src/base/csi/handles.js';
import { type AnyService, EncodedResponse, type MessageWriter } from '../../../src/base/csi/service.js';
import { CsiError, StatusCode } from '../../../src/base/errors.js';
import { formatHostPort } from '../../../src/base/settings/tls.js';
import { tlsSettings } from '../../support/certificates.js';
import { eventually } from '../../support/eventually.js';
import { encodeMessage, RawConnection } from '../../support/raw-call.js';
import { startRouter } from '../../support/router-here.js';
import {
  CAPACITY,
  endless,
  type FakeHandler,
  frame,
  LARGE,
  metadataService,
  rawClient,
  rowsFrom,
  startRoutedNode,
  unaryService,
  untilCutOff,
} from '../../support/server-fixture.js';

const UUID = '00000000-0000-4000-8000-000000000001';
const VOLUME = `vol-${nodeKey('node-a')}-${UUID}`;
const SNAPSHOT = `snap-${nodeKey('node-a')}-${UUID}`;
const CONTROLLER = '/csi.v1.Controller';

/** A node with these services, and a router before it; the log is the router's. */
async function route(t: TestContext, services: AnyService[]) {
  const node = await startRoutedNode(t, 'blockdelta.csi', { services });
  const directory = node.certificates;
  const list = join(directory, 'nodes.json');
  const nodes = [{ id: 'node-a', address: formatHostPort(node.address) }];
  writeFileSync(list, JSON.stringify({ nodes }));
  const endpoint = `unix://${join(directory, 'router.sock')}`;
  const settings = { BLOCKDELTA_ROUTE_NODES: `file:${list}`, ...tlsSettings(node.router) };
  const { client, log, close } = await startRouter(endpoint, settings);
  const raw = new RawConnection(endpoint);
  t.after(async () => {
    raw.close();
    await close();
  });
  return { endpoint, client, raw, log, nodeLog: node.logText };
}

/** A node whose Controller has that one RPC. */
const routeRpc = (t: TestContext, rpc: string, handler: FakeHandler) =>
  route(t, [unaryService('Controller', { [rpc]: handler })]);

/** A node whose SnapshotMetadata sends so. */
const routeStream = (t: TestContext, send: (writer: MessageWriter) => Promise<void>) =>
  route(t, [metadataService((_request, _context, writer) => send(writer))]);

/** Field 500, a string that the proto does not know. */
const UNKNOWN = Buffer.from([0xa2, 0x1f, 0x03, 0x61, 0x62, 0x63]);

test('requests and responses pass byte for byte, large ones and fields that nobody knows', async (t) => {
  const requests: unknown[] = [];
  const { raw } = await routeRpc(t, 'ControllerModifyVolume', async (_request, context) => {
    requests.push(context.encodedRequest);
    return new EncodedResponse(context.encodedRequest);
  });
  for (const length of [3, 3_900_000]) {
    const mutable_parameters = { value: 'x'.repeat(length) };
    const fields = { volume_id: VOLUME, mutable_parameters };
    const request = Buffer.concat([UNKNOWN, encodeMessage('ControllerModifyVolumeRequest', fields), UNKNOWN]);
    const response = await raw.unary(`${CONTROLLER}/ControllerModifyVolume`, request);
    assert.ok(response.equals(request));
    assert.ok(request.equals(requests.pop() as Buffer));
  }
});

test('every status of a node keeps its code and message', async (t) => {
  let status = 1;
  const message = 'pool "ä" is 100% full: #1 ✓';
  const { client } = await routeRpc(t, 'ControllerGetVolume', () =>
    Promise.reject(new CsiError(status as StatusCode, message)),
  );
  for (status = 1; status <= 16; status += 1) {
    const expected = { code: status, details: message };
    await assert.rejects(client.controller.ControllerGetVolume({ volume_id: VOLUME }), expected);
  }
});

test('the deadline of a call and its cancellation reach the node', async (t) => {
  const ends: CsiError[] = [];
  const began: number[] = [];
  const { client, endpoint } = await routeRpc(t, 'DeleteVolume', async (_request, context) => {
    began.push(context.deadline - Date.now());
    const reason = await untilCutOff(context);
    ends.push(reason);
    throw reason;
  });
  const late = client.controller.DeleteVolume({ volume_id: VOLUME }, { deadlineMs: 3000 });
  await assert.rejects(late, { code: StatusCode.DEADLINE_EXCEEDED });
  const [remainingMs = Number.NaN] = began;
  assert.ok(remainingMs > 0 && remainingMs <= 3100, `${remainingMs} ms remained`);
  await eventually('the node has noticed', () => ends.length === 1);
  const other = rawClient(t, endpoint, 'Controller');
  const request = { volume_id: VOLUME };
  const call = other['DeleteVolume']?.(request, () => undefined) as grpc.ClientUnaryCall;
  await eventually('the call has reached the node', () => began.length === 2);
  call.cancel();
  await eventually('the node has noticed', () => ends.length === 2);
  assert.equal(ends[1]?.code, StatusCode.CANCELLED);
});

test('messages that a node sent before an error arrive, and then its status', async (t) => {
  const { client } = await routeStream(t, async (writer) => {
    for (let first = 0; first < 2000; first += 100) {
      await writer.send(frame(CAPACITY, rowsFrom(first, 100)));
    }
    throw CsiError.failedPrecondition('the snapshot has changed');
  });
  const stream = client.open('GetMetadataAllocated', { snapshot_id: SNAPSHOT });
  let messages = 0;
  stream.on('data', () => {
    messages += 1;
  });
  const [error] = (await once(stream, 'error')) as [grpc.ServiceError];
  assert.equal(error.code, StatusCode.FAILED_PRECONDITION);
  assert.equal(error.details, 'the snapshot has changed');
  assert.equal(messages, 20);
});

test('a client that does not read holds the node back, and a cancelled stream ends at the node', async (t) => {
  const sender = endless(LARGE);
  const { client } = await routeStream(t, sender.send);
  const stream = client.open('GetMetadataAllocated', { snapshot_id: SNAPSHOT });
  stream.on('error', () => undefined);
  await once(stream, 'data');
  stream.pause();
  let before = -1;
  while (before !== sender.sent()) {
    before = sender.sent();
    await delay(300);
  }
  // Windows and buffers of both connections, and those of this client.
  assert.ok(before < 60, `${before} messages were sent`);
  stream.cancel();
  assert.equal((await sender.ended).code, StatusCode.CANCELLED);
});

test('a node sees the clients of the router as different ones', async (t) => {
  const peers: object[] = [];
  const { client, raw } = await routeRpc(t, 'DeleteVolume', async (_request, context) => {
    peers.push(context.peer);
    return {};
  });
  const call = () => client.controller.DeleteVolume({ volume_id: VOLUME });
  await call();
  await call();
  const request = encodeMessage('DeleteVolumeRequest', { volume_id: VOLUME });
  await raw.unary(`${CONTROLLER}/DeleteVolume`, request);
  const [first, again, second] = peers;
  assert.equal(first, again);
  assert.notEqual(first, second);
});

test('H10: secrets are passed on and never logged, neither by the router nor by the node', async (t) => {
  let secrets: unknown;
  const { client, log, nodeLog } = await routeRpc(t, 'DeleteVolume', async (request) => {
    secrets = request['secrets'];
    throw CsiError.failedPrecondition('in use');
  });
  const given = { password: 'do-not-log-me' };
  await assert.rejects(client.controller.DeleteVolume({ volume_id: VOLUME, secrets: given }));
  assert.deepEqual(secrets, given);
  await eventually('the call is logged', () => log().includes('Controller.DeleteVolume'));
  for (const text of [log(), nodeLog()]) assert.doesNotMatch(text, /do-not-log-me/);
});
