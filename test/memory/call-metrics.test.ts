/** What is counted of RPCs and streams, on a real socket. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { CallContext, MessageWriter } from '../../src/base/csi/service.js';
import { CsiError } from '../../src/base/errors.js';
import { Metrics } from '../../src/server/metrics/metrics.js';
import { eventually } from '../support/eventually.js';
import { MetricsText } from '../support/metrics-text.js';
import { refused } from '../support/refusal.js';
import { defer, frame, metadataService, startServer, unaryService, untilCutOff } from '../support/server-fixture.js';

const MESSAGE = frame(1n << 30n, [[0, 4096]]);
/** Without its length prefix. */
const MESSAGE_BYTES = MESSAGE.length - 5;
const ALLOCATED = { grpc_service: 'SnapshotMetadata', method: 'GetMetadataAllocated' };

async function start(t: TestContext, send: (writer: MessageWriter, context: CallContext) => Promise<void>) {
  const metrics = new Metrics({ command: 'test', freshMs: 0 });
  const services = [
    unaryService('Node', {
      NodeGetInfo: async () => ({ node_id: 'n' }),
      NodeStageVolume: () => Promise.reject(CsiError.notFound('volume v does not exist')),
    }),
    metadataService((_request, context, writer) => send(writer, context)),
  ];
  const { client } = await startServer(t, { services, observer: metrics.calls });
  const read = async () => new MetricsText(await metrics.registry.metrics());
  return { client, read };
}

/** Reads until a figure has the value: the server ends a call a moment after its client. */
async function readUntil(read: () => Promise<MetricsText>, name: string, value: number): Promise<MetricsText> {
  let found = await read();
  await eventually(`${name} is ${value}`, async () => {
    found = await read();
    return found.value(name, ALLOCATED) === value;
  });
  return found;
}

test('RPCs are counted by method and code, with their duration', async (t) => {
  const { client, read } = await start(t, async () => undefined);
  await client.node.NodeGetInfo({});
  await client.node.NodeGetInfo({});
  await refused(client.node.NodeStageVolume({ volume_id: 'v' }), 'NOT_FOUND');
  await refused(client.node.NodePublishVolume({ volume_id: 'v' }), 'UNIMPLEMENTED');
  const found = await read();
  const count = (method: string, code: string) =>
    found.value('blockdelta_rpcs_total', { grpc_service: 'Node', method, code });
  assert.equal(count('NodeGetInfo', 'OK'), 2);
  assert.equal(count('NodeStageVolume', 'NOT_FOUND'), 1);
  assert.equal(count('NodePublishVolume', 'UNIMPLEMENTED'), 1);
  assert.equal(found.value('blockdelta_rpc_duration_seconds_count', { method: 'NodeGetInfo' }), 2);
  assert.equal(found.value('blockdelta_rpcs_in_flight'), 0);
});

test('the figures of a stream grow while it runs, and remain when it has ended', async (t) => {
  const last = defer();
  const { client, read } = await start(t, async (writer) => {
    await writer.send(Buffer.concat([MESSAGE, MESSAGE]));
    await last.promise;
    await writer.send(MESSAGE);
  });
  const zero = await read();
  assert.equal(zero.value('blockdelta_streams_total', ALLOCATED), 0);
  const list = client.allocated('s');
  const running = await readUntil(read, 'blockdelta_stream_messages_total', 2);
  assert.equal(running.value('blockdelta_streams_open', ALLOCATED), 1);
  assert.equal(running.value('blockdelta_rpcs_in_flight', ALLOCATED), 1);
  last.resolve();
  await list;
  const ended = await readUntil(read, 'blockdelta_rpcs_in_flight', 0);
  assert.equal(ended.value('blockdelta_streams_open', ALLOCATED), 0);
  assert.equal(ended.value('blockdelta_streams_total', ALLOCATED), 1);
  assert.equal(ended.value('blockdelta_stream_messages_total', ALLOCATED), 3);
  assert.equal(ended.value('blockdelta_stream_bytes_total', ALLOCATED), 3 * MESSAGE_BYTES);
  assert.equal(ended.value('blockdelta_stream_first_message_seconds_count', ALLOCATED), 1);
  assert.equal(ended.value('blockdelta_streams_cancelled_total', ALLOCATED), 0);
});

test('a stream whose client goes away counts as cancelled', async (t) => {
  const { client, read } = await start(t, async (writer, context) => {
    await writer.send(MESSAGE);
    throw await untilCutOff(context);
  });
  const call = client.open('GetMetadataAllocated', { snapshot_id: 's' });
  call.on('error', () => undefined);
  call.once('data', () => call.cancel());
  const found = await readUntil(read, 'blockdelta_streams_cancelled_total', 1);
  assert.equal(found.value('blockdelta_streams_open', ALLOCATED), 0);
  const ended = await readUntil(read, 'blockdelta_rpcs_total', 1);
  assert.equal(ended.value('blockdelta_rpcs_total', { ...ALLOCATED, code: 'CANCELLED' }), 1);
});
