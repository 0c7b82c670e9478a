/**
 * One connection to the socket of any CSI driver: single attempts of calls, and streams as the bytes of their messages
 * or decoded. Knows how to call, and neither which failures pass nor what calls are for.
 */
import {
  Client,
  type ClientReadableStream,
  credentials,
  Metadata,
  type MethodDefinition,
  type ServiceError,
} from '@grpc/grpc-js';
import { clientServices } from '../../base/csi/proto.js';

// biome-ignore lint/suspicious/noExplicitAny: messages are plain objects of the proto's shape
export type Message = Record<string, any>;
export type MetadataRpc = 'GetMetadataAllocated' | 'GetMetadataDelta';

export interface CallOptions {
  deadlineMs?: number;
  /** Cancels the call. */
  signal?: AbortSignal;
  /** Waits until somebody serves the socket, instead of failing. */
  waitForReady?: boolean;
}

/** As long as a driver may take for a call that copies a volume. */
const DEADLINE_MS = 300_000;
const RECONNECT_MS = 100;

export function isServiceError(error: unknown): error is ServiceError {
  return (
    error instanceof Error &&
    typeof (error as Partial<ServiceError>).code === 'number' &&
    typeof (error as Partial<ServiceError>).details === 'string'
  );
}

export class CsiConnection {
  readonly #client: Client;

  constructor(readonly socketPath: string) {
    this.#client = new Client(`unix://${socketPath}`, credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
      'grpc.use_local_subchannel_pool': 1,
      'grpc.max_receive_message_length': -1,
      // A driver that comes up is not waited for longer than that.
      'grpc.initial_reconnect_backoff_ms': RECONNECT_MS,
      'grpc.max_reconnect_backoff_ms': RECONNECT_MS,
    });
  }

  /** The response. Rejects with the driver's status, a ServiceError. */
  unary(rpc: string, request: Message, options: CallOptions = {}): Promise<Message> {
    const { deadlineMs = DEADLINE_MS, signal, waitForReady = false } = options;
    const { path, requestSerialize, responseDeserialize } = methodOf(rpc);
    return new Promise((resolve, reject) => {
      const call = this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        new Metadata({ waitForReady }),
        { deadline: Date.now() + deadlineMs },
        (error, response) => {
          signal?.removeEventListener('abort', cancel);
          if (error === null) resolve(response as Message);
          else reject(error);
        },
      );
      const cancel = (): void => call.cancel();
      signal?.addEventListener('abort', cancel);
      if (signal?.aborted === true) cancel();
    });
  }

  /** The messages of a list, decoded. */
  list(rpc: MetadataRpc, request: Message): ClientReadableStream<Message> {
    return this.#open(rpc, request, methodOf(rpc).responseDeserialize);
  }

  /** The messages of a list as their bytes. */
  bytes(rpc: MetadataRpc, request: Message): ClientReadableStream<Buffer> {
    return this.#open(rpc, request, (bytes: Buffer) => bytes);
  }

  /** Resolves when somebody serves the socket, or nobody has for that long. */
  async connected(timeoutMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#client.waitForReady(Date.now() + timeoutMs, () => resolve());
    });
  }

  close(): void {
    this.#client.close();
  }

  #open<T>(rpc: MetadataRpc, request: Message, deserialize: (bytes: Buffer) => T) {
    const { path, requestSerialize } = methodOf(rpc);
    return this.#client.makeServerStreamRequest(path, requestSerialize, deserialize, request);
  }
}

/** The first service of CSI that has it: no two have an RPC of one name. */
export function methodOf(rpc: string): MethodDefinition<Message, Message> {
  for (const methods of Object.values(clientServices())) {
    const definition = methods[rpc];
    if (definition !== undefined) return definition as MethodDefinition<Message, Message>;
  }
  throw new Error(`CSI has no RPC ${rpc}`);
}
