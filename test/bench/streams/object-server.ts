/**
 * The same list as plain objects through proto-loader's serializers, as a server sends it that does not encode its
 * messages itself. It respects back-pressure, and passes int64 fields as numbers, the cheapest of the forms that
 * proto-loader takes.
 */
import { once } from 'node:events';
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../../src/base/csi/proto.js';
import { ENTRIES_PER_MESSAGE, EXTENT_BYTES, type Pattern, patternOf } from './pattern.js';
import { givenEndpoint, reportToParent } from './server-process.js';

interface AllocatedRequest {
  snapshot_id: string;
}
interface BlockMetadata {
  byte_offset: number;
  size_bytes: number;
}
interface AllocatedResponse {
  block_metadata_type: string;
  volume_capacity_bytes: number;
  block_metadata: BlockMetadata[];
}
type AllocatedCall = grpc.ServerWritableStream<AllocatedRequest, AllocatedResponse>;

function message(first: number, end: number, pattern: Pattern): AllocatedResponse {
  const blocks: BlockMetadata[] = [];
  for (let entry = first; entry < end; entry += 1) {
    blocks.push({ byte_offset: entry * pattern.strideBytes, size_bytes: EXTENT_BYTES });
  }
  return {
    block_metadata_type: 'VARIABLE_LENGTH',
    volume_capacity_bytes: pattern.sizeBytes,
    block_metadata: blocks,
  };
}

async function send(call: AllocatedCall): Promise<void> {
  const pattern = patternOf(call.request.snapshot_id);
  const { entries } = pattern;
  for (let first = 0; first < entries; first += ENTRIES_PER_MESSAGE) {
    const end = Math.min(first + ENTRIES_PER_MESSAGE, entries);
    if (!call.write(message(first, end, pattern))) await once(call, 'drain');
  }
  call.end();
}

const server = new grpc.Server();
server.addService(clientServices().SnapshotMetadata, {
  GetMetadataAllocated: (call: AllocatedCall) => {
    send(call).catch((error: Error) => call.emit('error', error));
  },
});
server.bindAsync(givenEndpoint(), grpc.ServerCredentials.createInsecure(), (error) => {
  if (error !== null) throw error;
  reportToParent();
});
