/**
 * A client of a running plugin: SnapshotMetadata streams over its unix socket.
 *
 * Each stream has its own connection. After a lost connection a gRPC channel fails calls for a while
 * without reconnecting, which is useless to a caller that resumes.
 */
import {
  type ClientReadableStream,
  credentials,
  makeGenericClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js';
import { clientServices } from '../../base/csi/proto.js';

export type MetadataRpc = 'GetMetadataAllocated' | 'GetMetadataDelta';

export interface MetadataRequest {
  readonly rpc: MetadataRpc;
  /** Snapshot ids by request field. */
  readonly ids: Readonly<Record<string, string>>;
  readonly startingOffset: bigint;
  /** Most entries in one message; 0: the plugin chooses. */
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

/** Most messages in the queue; above it, flow control makes the plugin wait. */
const MAX_QUEUED = 16;

export function isServiceError(error: unknown): error is ServiceError {
  return (
    error instanceof Error &&
    typeof (error as Partial<ServiceError>).code === 'number' &&
    typeof (error as Partial<ServiceError>).details === 'string'
  );
}

/** The messages of one stream. Throws a ServiceError unless it ends OK. Leaving the loop cancels the call. */
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
 * Reads by events, because `for await (... of call)` discards messages that have arrived when an error
 * follows. A stream that keeps being interrupted would never make progress.
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
  // 'end' also follows 'error'; then the error is already recorded.
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

const CONNECT_TIMEOUT_MS = 5000;

/**
 * Loads and runs once what a call needs: the proto, and the code of gRPC, by connecting. Resolves also if it
 * cannot connect, which the call itself reports.
 */
export async function prepareClient(socketPath: string): Promise<void> {
  const client = connect(socketPath);
  await new Promise<void>((resolve) => {
    client.waitForReady(Date.now() + CONNECT_TIMEOUT_MS, () => resolve());
  });
  client.close();
}

const PROBE_TIMEOUT_MS = 10_000;

/** Null: the plugin is ready. Otherwise what Probe answered. */
export async function probeReady(socketPath: string): Promise<string | null> {
  const Client = makeGenericClientConstructor(clientServices().Identity, 'Identity');
  const client = new Client(`unix://${socketPath}`, credentials.createInsecure(), {
    'grpc.default_authority': 'localhost',
    'grpc.use_local_subchannel_pool': 1,
  });
  try {
    return await new Promise((resolve) => {
      const deadline = Date.now() + PROBE_TIMEOUT_MS;
      const probe = client['Probe'] as ProbeCall;
      probe.call(client, {}, { deadline }, (error, answer) => {
        if (error !== null) resolve(error.details);
        else resolve(answer?.ready?.value === false ? 'it is starting' : null);
      });
    });
  } finally {
    client.close();
  }
}

type ProbeCall = (
  this: GenericClient,
  request: object,
  options: { deadline: number },
  done: (error: ServiceError | null, answer?: { ready: { value: boolean } | null }) => void,
) => void;
