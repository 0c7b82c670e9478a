/**
 * One connection to the socket of any CSI driver. Makes single attempts of calls, and streams messages as bytes or
 * decoded. Knows how to call, but not which failures are transient or what the calls are for.
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
import { restoreMethod } from '../../base/csi/restore-proto.js';

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

/** How a driver is reached that has several sockets, or wants secrets. */
export interface Reach {
  /** The socket of all services but Identity and Node; the one socket of the driver without it. */
  controllerSocketPath?: string;
  /** Secrets by RPC, `*` for all others. */
  secrets?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Paths of RPCs that are served where the Node service is. */
const OF_NODE = /^\/(csi\.v1\.(Identity|Node)|blockdelta\.restore\.v1\.InPlaceRestore)\//;

/** The time that a driver may take for a call that copies a volume. */
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
  readonly #controller: Client;

  constructor(
    readonly socketPath: string,
    private readonly reach: Reach = {},
  ) {
    const { controllerSocketPath = socketPath } = reach;
    this.#client = clientOf(socketPath);
    this.#controller = controllerSocketPath === socketPath ? this.#client : clientOf(controllerSocketPath);
  }

  /** Resolves to the response, or rejects with the driver's status as a ServiceError. */
  unary(rpc: string, request: Message, options: CallOptions = {}): Promise<Message> {
    const { deadlineMs = DEADLINE_MS, signal, waitForReady = false } = options;
    const { path, requestSerialize, responseDeserialize } = methodOf(rpc);
    return new Promise((resolve, reject) => {
      const call = this.#clientFor(path).makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        this.#complete(rpc, request),
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

  /** Streams the decoded messages of a list. */
  list(rpc: MetadataRpc, request: Message): ClientReadableStream<Message> {
    return this.#open(rpc, request, methodOf(rpc).responseDeserialize);
  }

  /** Streams the messages of a list as bytes. */
  bytes(rpc: MetadataRpc, request: Message): ClientReadableStream<Buffer> {
    return this.#open(rpc, request, (bytes: Buffer) => bytes);
  }

  /** Resolves when somebody serves the socket, or when nobody has served it for `timeoutMs`. */
  async connected(timeoutMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#client.waitForReady(Date.now() + timeoutMs, () => resolve());
    });
  }

  close(): void {
    this.#client.close();
    this.#controller.close();
  }

  #open<T>(rpc: MetadataRpc, request: Message, deserialize: (bytes: Buffer) => T) {
    const { path, requestSerialize } = methodOf(rpc);
    const complete = this.#complete(rpc, request);
    return this.#clientFor(path).makeServerStreamRequest(path, requestSerialize, deserialize, complete);
  }

  #clientFor(path: string): Client {
    return OF_NODE.test(path) ? this.#client : this.#controller;
  }

  /** The request with the secrets for the RPC, if its message has a field for them. */
  #complete(rpc: string, request: Message): Message {
    const secrets = this.reach.secrets?.[rpc] ?? this.reach.secrets?.['*'];
    return secrets === undefined ? request : { ...request, secrets };
  }
}

function clientOf(socketPath: string): Client {
  return new Client(`unix://${socketPath}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.use_local_subchannel_pool': 1,
    'grpc.max_receive_message_length': -1,
    // These values bound the wait for a driver that has just come up.
    'grpc.initial_reconnect_backoff_ms': RECONNECT_MS,
    'grpc.max_reconnect_backoff_ms': RECONNECT_MS,
  });
}

/** Finds the RPC in the services of CSI, no two of which have an RPC of the same name, or in the one that marks volumes. */
export function methodOf(rpc: string): MethodDefinition<Message, Message> {
  const services = Object.values(clientServices());
  const definition = services.find((methods) => rpc in methods)?.[rpc] ?? restoreMethod(rpc);
  if (definition !== undefined) return definition as MethodDefinition<Message, Message>;
  throw new Error(`CSI has no RPC ${rpc}`);
}
