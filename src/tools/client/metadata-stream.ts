/**
 * The decoded messages of one SnapshotMetadata stream, with flow control.
 *
 * Each stream has its own connection. After a lost connection a gRPC channel fails calls for a while
 * without reconnecting, which is useless to a caller that resumes.
 */
import type { ClientReadableStream } from '@grpc/grpc-js';
import { CsiConnection, type MetadataRpc } from './connection.js';

export interface MetadataRequest {
  readonly rpc: MetadataRpc;
  /** Snapshot ids by request field. */
  readonly ids: Readonly<Record<string, string>>;
  readonly startingOffset: bigint;
  /** The most entries in one message; 0 lets the plugin choose. */
  readonly maxResults: number;
}

/** Requests all allocated ranges of a snapshot if `baseId` is null, and otherwise all ranges that differ from the base. */
export function requestFor(snapshotId: string, baseId: string | null): MetadataRequest {
  const whole = { startingOffset: 0n, maxResults: 0 };
  if (baseId === null) {
    return { rpc: 'GetMetadataAllocated', ids: { snapshot_id: snapshotId }, ...whole };
  }
  const ids = { base_snapshot_id: baseId, target_snapshot_id: snapshotId };
  return { rpc: 'GetMetadataDelta', ids, ...whole };
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

/** The most messages in the queue. At this number, flow control makes the plugin wait. */
const MAX_QUEUED = 16;

/** Yields the messages of one stream. Throws a ServiceError unless the stream ends OK. Leaving the loop cancels the call. */
export async function* openMetadata(
  socketPath: string,
  { rpc, ids, startingOffset, maxResults }: MetadataRequest,
  signal: AbortSignal,
): AsyncGenerator<MetadataMessage, void, undefined> {
  const connection = new CsiConnection(socketPath);
  const request = { ...ids, starting_offset: `${startingOffset}`, max_results: maxResults };
  const call = connection.list(rpc, request) as ClientReadableStream<MetadataMessage>;
  const cancel = (): void => call.cancel();
  signal.addEventListener('abort', cancel);
  try {
    if (signal.aborted) cancel();
    yield* messagesOf(call);
  } finally {
    signal.removeEventListener('abort', cancel);
    call.cancel();
    connection.close();
  }
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
  // 'end' also follows 'error', but then the error is already recorded.
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
 * Connects once, so that the proto and the code of gRPC, which a call needs, are loaded and have run. Also resolves if
 * the connection fails, because the call itself reports that.
 */
export async function prepareClient(socketPath: string): Promise<void> {
  const connection = new CsiConnection(socketPath);
  await connection.connected(CONNECT_TIMEOUT_MS);
  connection.close();
}
