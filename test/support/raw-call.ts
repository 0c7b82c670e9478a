/** Sends the exact bytes of a request, valid or not, to any path. */
import * as grpc from '@grpc/grpc-js';
import { CSI_PACKAGE, clientServices, csiProto } from '../../src/base/csi/proto.js';
import type { ServiceName } from '../../src/base/csi/service.js';
import type { Message } from './csi-client.js';

/** One RPC of the proto, as a caller sees it. */
export interface RpcDescription {
  service: ServiceName;
  name: string;
  path: string;
  /** Relative to csi.v1. */
  requestType: string;
  responseType: string;
  isStream: boolean;
}

/** Every RPC of every service. */
export function allRpcs(): RpcDescription[] {
  return Object.entries(clientServices()).flatMap(([service, methods]) =>
    Object.entries(methods).map(([name, method]) => {
      const { requestType, responseType } = csiProto().root.lookupService(`${CSI_PACKAGE}.${service}`).methods[
        name
      ] as { requestType: string; responseType: string };
      const isStream = method.responseStream;
      const described = { service: service as ServiceName, name, path: method.path };
      return { ...described, requestType, responseType, isStream };
    }),
  );
}

export function encodeMessage(typeName: string, message: Message): Buffer {
  const type = csiProto().root.lookupType(`${CSI_PACKAGE}.${typeName}`);
  return Buffer.from(type.encode(type.fromObject(message)).finish());
}

export function decodeMessage(typeName: string, bytes: Buffer): Message {
  const type = csiProto().root.lookupType(`${CSI_PACKAGE}.${typeName}`);
  return type.toObject(type.decode(bytes), { longs: String, enums: String, defaults: true });
}

/** A connection of its own, for calls by path. */
export class RawConnection {
  readonly #client: grpc.Client;

  constructor(endpoint: string) {
    this.#client = new grpc.Client(endpoint, grpc.credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_send_message_length': -1,
    });
  }

  /** The bytes of the answer; of a stream, of its last message, or none. Rejects with the status. */
  call(rpc: Pick<RpcDescription, 'path' | 'isStream'>, request: Buffer): Promise<Buffer> {
    return rpc.isStream ? this.#stream(rpc.path, request) : this.unary(rpc.path, request);
  }

  unary(path: string, request: Buffer): Promise<Buffer> {
    const options = { deadline: Date.now() + 60_000 };
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(path, same, same, request, options, (error, answer) => {
        if (error === null && answer !== undefined) resolve(answer);
        else reject(error);
      });
    });
  }

  close(): void {
    this.#client.close();
  }

  #stream(path: string, request: Buffer): Promise<Buffer> {
    const options = { deadline: Date.now() + 60_000 };
    return new Promise((resolve, reject) => {
      let last = Buffer.alloc(0);
      this.#client
        .makeServerStreamRequest(path, same, same, request, options)
        .on('data', (message: Buffer) => {
          last = Buffer.from(message);
        })
        .on('error', reject)
        .on('end', () => resolve(last));
    });
  }
}

function same(bytes: Buffer): Buffer {
  return bytes;
}
