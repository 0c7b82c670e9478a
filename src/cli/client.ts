/**
 * The way from a command to a running plugin: SnapshotMetadata streams over its unix socket.
 *
 * Each stream has a connection of its own. A channel that has lost its connection answers from
 * memory for a while instead of trying again, which is no use to a caller who wants to resume.
 */
import { isAbsolute } from 'node:path';
import {
  type ClientReadableStream,
  credentials,
  makeGenericClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js';
import { SOCKET_PATH_MAX } from '../config/config.js';
import { clientServices } from '../csi/proto.js';

export type MetadataRpc = 'GetMetadataAllocated' | 'GetMetadataDelta';

export interface MetadataRequest {
  readonly rpc: MetadataRpc;
  /** The snapshots, by request field. */
  readonly ids: Readonly<Record<string, string>>;
  readonly startingOffset: bigint;
  /** Entries in one message at most; 0: the plugin chooses. */
  readonly maxResults: number;
}

/** A response of either RPC, as decoded. */
export interface MetadataMessage {
  readonly block_metadata_type: string;
  readonly volume_capacity_bytes: string;
  readonly block_metadata: readonly {
    readonly byte_offset: string;
    readonly size_bytes: string;
  }[];
}

/** Messages that arrive faster than they are used; beyond it the plugin is made to wait. */
const MAX_QUEUED = 16;

export function isServiceError(error: unknown): error is ServiceError {
  return (
    error instanceof Error &&
    typeof (error as Partial<ServiceError>).code === 'number' &&
    typeof (error as Partial<ServiceError>).details === 'string'
  );
}

/** The path of the socket. Throws an Error in words for the user. */
export function parseClientEndpoint(endpoint: string): string {
  const path = endpoint.startsWith('unix://') ? endpoint.slice('unix://'.length) : endpoint;
  if (!isAbsolute(path)) {
    throw new Error(
      `the endpoint is '${endpoint}': it must be like unix:///run/blockdelta/csi.sock`,
    );
  }
  const bytes = Buffer.byteLength(path);
  if (bytes > SOCKET_PATH_MAX) {
    throw new Error(
      `the endpoint's path is ${bytes} bytes long; the kernel takes ${SOCKET_PATH_MAX}`,
    );
  }
  return path;
}

/** The messages of one stream; throws a ServiceError unless it ends with OK. Leaving it cancels. */
export async function* openMetadata(
  socketPath: string,
  request: MetadataRequest,
  signal: AbortSignal,
): AsyncGenerator<MetadataMessage, void, undefined> {
  const client = connect(socketPath);
  const call = startCall(client, request);
  const cancel = (): void => call.cancel();
  signal.addEventListener('abort', cancel);
  try {
    if (signal.aborted) cancel();
    yield* messagesOf(call);
  } finally {
    signal.removeEventListener('abort', cancel);
    call.cancel();
    client.close();
  }
}

type GenericClient = InstanceType<ReturnType<typeof makeGenericClientConstructor>>;

function connect(socketPath: string): GenericClient {
  const Client = makeGenericClientConstructor(
    clientServices().SnapshotMetadata,
    'SnapshotMetadata',
  );
  return new Client(`unix://${socketPath}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.use_local_subchannel_pool': 1,
    'grpc.max_receive_message_length': -1,
  });
}

function startCall(
  client: GenericClient,
  request: MetadataRequest,
): ClientReadableStream<MetadataMessage> {
  const start = client[request.rpc] as (message: object) => ClientReadableStream<MetadataMessage>;
  return start.call(client, {
    ...request.ids,
    starting_offset: request.startingOffset.toString(),
    max_results: request.maxResults,
  });
}

/**
 * Reads by events and not by `for await (... of call)`, which throws away what has arrived when an
 * error comes behind it. A stream that is cut again and again would then never get anywhere.
 */
async function* messagesOf(
  call: ClientReadableStream<MetadataMessage>,
): AsyncGenerator<MetadataMessage, void, undefined> {
  const queue: MetadataMessage[] = [];
  let end: { error: unknown } | null = null;
  let wake = (): void => undefined;
  call.on('data', (message: MetadataMessage) => {
    queue.push(message);
    if (queue.length >= MAX_QUEUED) call.pause();
    wake();
  });
  call.on('error', (error) => {
    end ??= { error };
    wake();
  });
  // After an error too, but then 'error' came first.
  call.on('end', () => {
    end ??= { error: null };
    wake();
  });
  for (;;) {
    const message = queue.shift();
    if (message !== undefined) {
      if (call.isPaused()) call.resume();
      yield message;
    } else if (end !== null) {
      const { error } = end as { error: unknown };
      if (error !== null) throw error;
      return;
    } else {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }
}
