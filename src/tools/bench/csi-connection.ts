/** A client of any CSI driver: unary calls as objects, streams as the bytes of their messages. */
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../base/csi/proto.js';
import type { ServiceName } from '../../base/csi/service.js';

export type Message = Record<string, unknown>;
export type StreamRpc = 'GetMetadataAllocated' | 'GetMetadataDelta';

export interface CallOptions {
  /** Without one, a call may take ten minutes. */
  deadlineMs?: number;
  /** Waits for the connection instead of failing when the socket is not there yet. */
  waitForReady?: boolean;
}

export interface ReadOptions {
  /** Each message's bytes, valid during the call only. */
  onMessage?: (message: Buffer) => void;
  /** After each message: makes a slow reader. */
  pauseMs?: number;
}

export interface Reading {
  messages: number;
  bytes: number;
  /** From the call to the first and to the last message. */
  firstMs: number;
  totalMs: number;
}

const DEADLINE_MS = 600_000;

export class CsiConnection {
  readonly #client: grpc.Client;

  /** @param endpoint unix:///path */
  constructor(endpoint: string) {
    this.#client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
      // A driver that comes up is not waited for longer than that.
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 100,
    });
  }

  async call(
    service: ServiceName,
    rpc: string,
    request: object,
    { deadlineMs = DEADLINE_MS, waitForReady = false }: CallOptions = {},
  ): Promise<Message> {
    const method = clientServices()[service][rpc];
    if (method === undefined) throw new Error(`the proto has no ${service}.${rpc}`);
    const metadata = new grpc.Metadata({ waitForReady });
    const deadline = Date.now() + deadlineMs;
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        method.path,
        method.requestSerialize,
        method.responseDeserialize,
        request,
        metadata,
        { deadline },
        (error, response) => {
          if (error === null) resolve(response as Message);
          else reject(error);
        },
      );
    });
  }

  /** Reads a stream to its end; rejects with its status if that is not OK. Decodes nothing. */
  async read(rpc: StreamRpc, request: object, options: ReadOptions = {}): Promise<Reading> {
    const method = clientServices().SnapshotMetadata[rpc];
    if (method === undefined) throw new Error(`the proto has no ${rpc}`);
    const started = performance.now();
    const call = this.#client.makeServerStreamRequest(
      method.path,
      method.requestSerialize,
      (bytes: Buffer) => bytes,
      request,
    );
    const reading: Reading = { messages: 0, bytes: 0, firstMs: 0, totalMs: 0 };
    return new Promise((resolve, reject) => {
      call.on('data', (message: Buffer) => {
        reading.totalMs = performance.now() - started;
        if (reading.messages === 0) reading.firstMs = reading.totalMs;
        reading.messages += 1;
        reading.bytes += message.length;
        options.onMessage?.(message);
        if (options.pauseMs === undefined) return;
        call.pause();
        setTimeout(() => call.resume(), options.pauseMs);
      });
      call.once('error', reject);
      call.once('end', () => resolve(reading));
    });
  }

  close(): void {
    this.#client.close();
  }
}
