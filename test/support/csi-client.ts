/** A CSI client over a real socket: every RPC of every service as a promise, streams as collected ranges. */
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientReadableStream } from '@grpc/grpc-js';
import type { Service, ServiceName } from '../../src/base/csi/service.js';
import { CsiConnection, type Message, type MetadataRpc } from '../../src/tools/client/connection.js';

export type { Message };

/** The unary calls of a service. */
type Rpcs<Name extends ServiceName> = Record<
  keyof Service<Name>['unary'],
  (request: Message, options?: { deadlineMs?: number }) => Promise<Message>
>;

export interface Range {
  offset: bigint;
  size: bigint;
}

export interface MetadataAnswer {
  type: string;
  capacity: bigint;
  ranges: Range[];
  messages: number;
}

/** The ranges of one message of a list. */
export const rangesIn = (message: Message): Range[] =>
  message['block_metadata'].map(({ byte_offset, size_bytes }: Message) => ({
    offset: BigInt(byte_offset),
    size: BigInt(size_bytes),
  }));

/** Resolves once a Probe fails: a plugin may repeat its last good answer for a second. */
export async function probeFails({ identity }: Pick<CsiClient, 'identity'>): Promise<void> {
  const fails = (): Promise<boolean> =>
    identity.Probe({}).then(
      () => false,
      () => true,
    );
  while (!(await fails())) await delay(100);
}

/** Far above what a call takes, in an emulated guest on a busy machine too. */
const DEADLINE_MS = process.env['BLOCKDELTA_GUEST'] === '1' ? 600_000 : 60_000;

export class CsiClient {
  readonly #connection: CsiConnection;
  readonly identity: Rpcs<'Identity'>;
  readonly controller: Rpcs<'Controller'>;
  readonly groups: Rpcs<'GroupController'>;
  readonly node: Rpcs<'Node'>;

  /** @param deadlineMs of calls that name none */
  constructor(endpoint: string, deadlineMs = DEADLINE_MS) {
    this.#connection = new CsiConnection(endpoint.slice('unix://'.length));
    this.identity = this.#rpcs(deadlineMs);
    this.controller = this.#rpcs(deadlineMs);
    this.groups = this.#rpcs(deadlineMs);
    this.node = this.#rpcs(deadlineMs);
  }

  /** The raw stream, for tests that cancel or stall it. */
  open(rpc: MetadataRpc, request: Message): ClientReadableStream<Message> {
    return this.#connection.list(rpc, request);
  }

  /** The whole list; rejects with the status if the stream does not end OK. */
  async metadata(rpc: MetadataRpc, request: Message): Promise<MetadataAnswer> {
    const answer: MetadataAnswer = { type: '', capacity: -1n, ranges: [], messages: 0 };
    for await (const message of this.open(rpc, request) as AsyncIterable<Message>) {
      answer.messages += 1;
      answer.type = message['block_metadata_type'];
      answer.capacity = BigInt(message['volume_capacity_bytes']);
      answer.ranges.push(...rangesIn(message));
    }
    return answer;
  }

  allocated(snapshotId: string, options: Message = {}): Promise<MetadataAnswer> {
    return this.metadata('GetMetadataAllocated', { snapshot_id: snapshotId, ...options });
  }

  delta(baseId: string, targetId: string, options: Message = {}): Promise<MetadataAnswer> {
    return this.metadata('GetMetadataDelta', { base_snapshot_id: baseId, target_snapshot_id: targetId, ...options });
  }

  close(): void {
    this.#connection.close();
  }

  #rpcs<Name extends ServiceName>(deadlineMs: number): Rpcs<Name> {
    return new Proxy({} as Rpcs<Name>, {
      get:
        (_target, rpc: string) =>
        (request: Message, options: { deadlineMs?: number } = {}) =>
          this.#connection.unary(rpc, request, { deadlineMs, ...options }),
    });
  }
}

/** The capability of a file system volume. */
export const mountCapability = (fsType = '', mode = 'SINGLE_NODE_WRITER', flags: string[] = []): Message => ({
  mount: { fs_type: fsType, mount_flags: flags },
  access_mode: { mode },
});

/** The capability of a raw block volume. */
export const blockCapability = (mode = 'SINGLE_NODE_WRITER'): Message => ({ block: {}, access_mode: { mode } });
