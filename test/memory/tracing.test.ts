/** The spans of calls, as the SDK of OpenTelemetry sees them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as grpc from '@grpc/grpc-js';
import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import { CsiError, StatusCode } from '../../src/base/errors.js';
import { NativePool } from '../../src/driver/native/pool.js';
import {
  frame,
  metadataService,
  type RawClient,
  rawClient,
  startServer,
  unaryService,
} from '../support/server-fixture.js';

const exporter = new InMemorySpanExporter();
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();

/** Those that have ended since it was asked last, in that order. */
function ended(): ReadableSpan[] {
  const spans = exporter.getFinishedSpans();
  exporter.reset();
  return spans;
}

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';

/** Of its trace, and of the span above it. */
const idsOf = (span: ReadableSpan) => [span.spanContext().traceId, span.parentSpanContext?.spanId];

/** Calls with the headers of a caller that traces; resolves to the status code. */
function call(client: RawClient, rpc: string, request: object): Promise<number> {
  const metadata = new grpc.Metadata();
  metadata.set('traceparent', `00-${TRACE}-${PARENT}-01`);
  return new Promise((resolve) => {
    client[rpc]?.(request, metadata, (error: grpc.ServiceError | null) => {
      resolve(error?.code ?? grpc.status.OK);
    });
  });
}

test('a call is a span in the trace of its caller, with its device tasks below it', async (t) => {
  const native = new NativePool(1);
  t.after(() => native.close());
  const node = unaryService('Node', {
    NodeGetInfo: async () => {
      await native.run('loopList', {});
      return { node_id: 'n' };
    },
  });
  const { endpoint } = await startServer(t, { services: [node] });
  assert.equal(await call(rawClient(t, endpoint, 'Node'), 'NodeGetInfo', {}), StatusCode.OK);
  const [task, served, ...others] = ended();
  assert.deepEqual(others, []);
  assert.ok(served !== undefined && task !== undefined);
  assert.equal(served.name, 'csi.v1.Node/NodeGetInfo');
  assert.equal(served.kind, SpanKind.SERVER);
  assert.deepEqual(idsOf(served), [TRACE, PARENT]);
  assert.deepEqual(served.attributes, {
    'rpc.system': 'grpc',
    'rpc.service': 'csi.v1.Node',
    'rpc.method': 'NodeGetInfo',
    'rpc.grpc.status_code': 0,
  });
  assert.equal(task.name, 'device loopList');
  assert.deepEqual(idsOf(task), [TRACE, served.spanContext().spanId]);
});

test('the span of a failed call has its code and message', async (t) => {
  const node = unaryService('Node', {
    NodeGetInfo: () => Promise.reject(CsiError.notFound('volume v does not exist')),
  });
  const { endpoint } = await startServer(t, { services: [node] });
  await call(rawClient(t, endpoint, 'Node'), 'NodeGetInfo', {});
  const [span] = ended();
  assert.deepEqual(span?.status, { code: SpanStatusCode.ERROR, message: 'volume v does not exist' });
  assert.equal(span?.attributes['rpc.grpc.status_code'], StatusCode.NOT_FOUND);
});

test('a stream is one span, however many messages it has', async (t) => {
  const message = frame(1n << 30n, [[0, 4096]]);
  const metadata = metadataService(async (_request, _context, writer) => {
    for (let sent = 0; sent < 20; sent += 1) await writer.send(message);
  });
  const { client } = await startServer(t, { services: [metadata] });
  assert.equal((await client.allocated('s')).messages, 20);
  const [span, ...others] = ended();
  assert.deepEqual(others, []);
  assert.equal(span?.name, 'csi.v1.SnapshotMetadata/GetMetadataAllocated');
});
