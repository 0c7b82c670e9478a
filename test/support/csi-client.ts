/** A CSI client over a real socket: every RPC of every service as a promise, streams as collected ranges. */
import { setTimeout as delay } from 'node:timers/promises';
import * as grpc from '@grpc/grpc-js';
import { clientServices } from '../../src/csi/proto.js';
import type { ServiceName } from '../../src/csi/service.js';

// biome-ignore lint/suspicious/noExplicitAny: messages are plain objects of the proto's shape
export type Message = Record<string, any>;
type Rpcs<Name extends string> = Record<
  Name,
  (request: Message, options?: { deadlineMs?: number }) => Promise<Message>
>;
type IdentityRpc = 'GetPluginInfo' | 'GetPluginCapabilities' | 'Probe';
type ControllerRpc =
  | 'CreateVolume'
  | 'DeleteVolume'
  | 'ControllerPublishVolume'
  | 'ControllerUnpublishVolume'
  | 'ValidateVolumeCapabilities'
  | 'ListVolumes'
  | 'GetCapacity'
  | 'ControllerGetCapabilities'
  | 'CreateSnapshot'
  | 'DeleteSnapshot'
  | 'ListSnapshots'
  | 'GetSnapshot'
  | 'ControllerExpandVolume'
  | 'ControllerGetVolume'
  | 'ControllerGetVolumeHealth'
  | 'ControllerListVolumeHealth'
  | 'ControllerModifyVolume';
type GroupRpc =
  | 'GroupControllerGetCapabilities'
  | 'CreateVolumeGroupSnapshot'
  | 'DeleteVolumeGroupSnapshot'
  | 'GetVolumeGroupSnapshot';
type NodeRpc =
  | 'NodeStageVolume'
  | 'NodeUnstageVolume'
  | 'NodePublishVolume'
  | 'NodeUnpublishVolume'
  | 'NodeGetVolumeStats'
  | 'NodeGetVolumeHealth'
  | 'NodeGetStorageHealth'
  | 'NodeExpandVolume'
  | 'NodeGetCapabilities'
  | 'NodeGetInfo';

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
  readonly #clients: Record<ServiceName, grpc.Client>;
  readonly identity: Rpcs<IdentityRpc>;
  readonly controller: Rpcs<ControllerRpc>;
  readonly groups: Rpcs<GroupRpc>;
  readonly node: Rpcs<NodeRpc>;

  /** @param deadlineMs of calls that name none */
  constructor(endpoint: string, deadlineMs = DEADLINE_MS) {
    const services = clientServices();
    const make = (name: ServiceName): grpc.Client =>
      new (grpc.makeGenericClientConstructor(services[name], name))(
        endpoint,
        grpc.credentials.createInsecure(),
        {
          'grpc.default_authority': 'localhost',
          // The first connect comes before the socket is there; a second's pause in each test adds up.
          'grpc.initial_reconnect_backoff_ms': 50,
          'grpc.max_reconnect_backoff_ms': 200,
        },
      );
    this.#clients = {
      Identity: make('Identity'),
      Controller: make('Controller'),
      GroupController: make('GroupController'),
      Node: make('Node'),
      SnapshotMetadata: make('SnapshotMetadata'),
    };
    this.identity = rpcs(this.#clients.Identity, deadlineMs);
    this.controller = rpcs(this.#clients.Controller, deadlineMs);
    this.groups = rpcs(this.#clients.GroupController, deadlineMs);
    this.node = rpcs(this.#clients.Node, deadlineMs);
  }

  /** The raw stream, for tests that cancel or stall it. */
  open(
    rpc: 'GetMetadataAllocated' | 'GetMetadataDelta',
    request: Message,
  ): grpc.ClientReadableStream<Message> {
    // biome-ignore lint/suspicious/noExplicitAny: generated methods
    return (this.#clients.SnapshotMetadata as any)[rpc](request);
  }

  /** The whole list; rejects with the status if the stream does not end OK. */
  async metadata(
    rpc: 'GetMetadataAllocated' | 'GetMetadataDelta',
    request: Message,
  ): Promise<MetadataAnswer> {
    const answer: MetadataAnswer = { type: '', capacity: -1n, ranges: [], messages: 0 };
    for await (const message of this.open(rpc, request) as AsyncIterable<Message>) {
      answer.messages += 1;
      answer.type = message['block_metadata_type'];
      answer.capacity = BigInt(message['volume_capacity_bytes']);
      for (const block of message['block_metadata'] as Message[]) {
        answer.ranges.push({
          offset: BigInt(block['byte_offset']),
          size: BigInt(block['size_bytes']),
        });
      }
    }
    return answer;
  }

  allocated(snapshotId: string, options: Message = {}): Promise<MetadataAnswer> {
    return this.metadata('GetMetadataAllocated', { snapshot_id: snapshotId, ...options });
  }

  delta(baseId: string, targetId: string, options: Message = {}): Promise<MetadataAnswer> {
    return this.metadata('GetMetadataDelta', {
      base_snapshot_id: baseId,
      target_snapshot_id: targetId,
      ...options,
    });
  }

  close(): void {
    for (const client of Object.values(this.#clients)) client.close();
  }
}

function rpcs<Name extends string>(client: grpc.Client, deadlineMs: number): Rpcs<Name> {
  return new Proxy({} as Rpcs<Name>, {
    get:
      (_target, rpc: string) =>
      (request: Message, options: { deadlineMs?: number } = {}) =>
        new Promise<Message>((resolve, reject) => {
          const deadline = Date.now() + (options.deadlineMs ?? deadlineMs);
          // biome-ignore lint/suspicious/noExplicitAny: generated methods
          (client as any)[rpc](request, { deadline }, (error: unknown, response: Message) =>
            error ? reject(error) : resolve(response),
          );
        }),
  });
}

/** The capability of a file system volume. */
export const mountCapability = (fsType = '', mode = 'SINGLE_NODE_WRITER'): Message => ({
  mount: { fs_type: fsType },
  access_mode: { mode },
});

/** The capability of a raw block volume. */
export const blockCapability = (mode = 'SINGLE_NODE_WRITER'): Message => ({
  block: {},
  access_mode: { mode },
});
