/**
 * The peer of the stream rows: the same list as plain objects through proto-loader's serializers,
 * as a plugin would send it that knows nothing of wire bytes. It respects back-pressure, and hands
 * int64 fields over as numbers, the cheapest of the forms that proto-loader takes.
 */
import { once } from 'node:events';
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../src/csi/proto.js';
import {
  ENTRIES_PER_MESSAGE,
  EXTENT_BYTES,
  patternBytes,
  patternEntries,
  STRIDE_BYTES,
} from './pattern.js';
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

function message(first: number, end: number, capacity: number): AllocatedResponse {
  const blocks: BlockMetadata[] = [];
  for (let entry = first; entry < end; entry += 1) {
    blocks.push({ byte_offset: entry * STRIDE_BYTES, size_bytes: EXTENT_BYTES });
  }
  return {
    block_metadata_type: 'VARIABLE_LENGTH',
    volume_capacity_bytes: capacity,
    block_metadata: blocks,
  };
}

async function send(call: AllocatedCall): Promise<void> {
  const entries = patternEntries(call.request.snapshot_id);
  const capacity = patternBytes(entries);
  for (let first = 0; first < entries; first += ENTRIES_PER_MESSAGE) {
    const end = Math.min(first + ENTRIES_PER_MESSAGE, entries);
    if (!call.write(message(first, end, capacity))) await once(call, 'drain');
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
