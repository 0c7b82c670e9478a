/**
 * A client in a process of its own that opens many streams and does not read them, or cancels them at once, for the
 * suite hostile. Arguments: endpoint, connections, streams of each, snapshot id, and
 * `unread` or `reset`.
 */
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../../src/base/csi/proto.js';
import { givenArgument, givenEndpoint } from './server-process.js';

const endpoint = givenEndpoint();
const connections = Number(givenArgument(1));
const streams = Number(givenArgument(2));
const request = { snapshot_id: givenArgument(3) };
const isReset = givenArgument(4) === 'reset';

const method = clientServices().SnapshotMetadata['GetMetadataAllocated'];
if (method === undefined) throw new Error('no method GetMetadataAllocated');

const calls: grpc.ClientReadableStream<Buffer>[] = [];
for (let connection = 0; connection < connections; connection += 1) {
  const client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.use_local_subchannel_pool': 1,
  });
  for (let stream = 0; stream < streams; stream += 1) {
    const call = client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      (bytes: Buffer) => bytes,
      request,
    );
    // Refused, evicted or cancelled.
    call.on('error', () => undefined);
    // Without this gRPC reads everything into the client's memory.
    call.once('data', () => call.pause());
    calls.push(call);
  }
}

process.on('disconnect', () => process.exit());
// By then the server has seen the streams.
setTimeout(() => {
  if (!isReset) {
    process.send?.('opened');
    return;
  }
  for (const call of calls) call.cancel();
  process.send?.('opened', () => process.exit());
}, 1000);
