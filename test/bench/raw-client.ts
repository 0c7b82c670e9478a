/**
 * A client of the two metadata streams that takes the bytes as they come: gRPC unframes them, and
 * nothing is decoded unless a caller asks for it. So the client costs as little as a client can.
 */
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../src/csi/proto.js';

export type StreamRpc = 'GetMetadataAllocated' | 'GetMetadataDelta';

export class RawClient {
  readonly #client: grpc.Client;

  constructor(endpoint: string) {
    this.#client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
    });
  }

  /**
   * Reads a stream to its end; rejects with its status if that is not OK. `pauseMs` after every
   * message makes a slow reader. Returns the bytes of all messages.
   */
  async read(
    rpc: StreamRpc,
    request: object,
    options: { onMessage?: (message: Buffer) => void; pauseMs?: number } = {},
  ): Promise<number> {
    const call = this.#open(rpc, request);
    const { onMessage, pauseMs } = options;
    let bytes = 0;
    return new Promise((resolve, reject) => {
      call.on('data', (message: Buffer) => {
        bytes += message.length;
        onMessage?.(message);
        if (pauseMs === undefined) return;
        call.pause();
        setTimeout(() => call.resume(), pauseMs);
      });
      call.once('error', reject);
      call.once('end', () => resolve(bytes));
    });
  }

  close(): void {
    this.#client.close();
  }

  #open(rpc: StreamRpc, request: object): grpc.ClientReadableStream<Buffer> {
    const method = clientServices().SnapshotMetadata[rpc];
    if (method === undefined) throw new Error(`no method ${rpc}`);
    return this.#client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      (bytes: Buffer) => bytes,
      request,
    );
  }
}
