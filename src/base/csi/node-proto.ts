/**
 * blockdelta.node.v1, loaded from proto/node.proto: what a router asks a node besides CSI. Both sides use this file. Messages in
 * JavaScript are as in proto.ts.
 */
import type { MethodDefinition } from '@grpc/grpc-js';
import { type LoadedProto, loadProto } from './proto.js';
import type { CordonMessage, SupersedeMessage } from './router-proto.js';

export const NODE_PACKAGE = 'blockdelta.node.v1';
export const NODE_SERVICE = `${NODE_PACKAGE}.Node`;

/** The messages, written by hand: a generated type of each would be far longer than the proto. */
export interface SnapshotMessage {
  readonly snapshot_id: string;
  readonly volume_id: string;
  readonly size_bytes: string;
  readonly sequence: string;
  readonly creation_time_ns: string;
  readonly content: string | number;
  readonly file_system: string;
  readonly uses: readonly { readonly access_mode: string; readonly block: boolean; readonly fs_type: string }[];
  readonly catalogue_uuid: string;
  readonly pool_uuid: string;
}

export interface BaseMessage {
  readonly snapshot_id: string;
  readonly size_bytes: string;
}

export interface PullStateMessage {
  readonly status: string | number;
  readonly base_snapshot_id: string;
  readonly offset: string;
  readonly done_bytes: string;
  readonly total_bytes: string;
  readonly bytes_per_second: string;
  readonly failure: string;
}

export interface PieceMessage {
  readonly base_snapshot_id: string;
  readonly offset: string;
  readonly next_offset: string;
  readonly data_bytes: string;
  readonly remaining_bytes: string;
  readonly request_size: number;
  readonly port: number;
  readonly key: string;
  readonly export_name: string;
  readonly lease_ms: number;
  readonly stall_ms: number;
  readonly written_bytes: string;
}

export interface PromiseMessage {
  readonly snapshot_id: string;
  readonly promise_id: string;
}

export interface RoomMessage {
  readonly serves: boolean;
  readonly pool: string;
  readonly holds: boolean;
  readonly room_bytes: string;
  readonly newest_sequence: string;
}

export interface CopyMessage {
  readonly snapshot_id: string;
  readonly promise_id: string;
  readonly node_id: string;
  readonly state: string | number;
  readonly pool: string;
  readonly volume_id: string;
}

export interface SuccessionMessage extends SupersedeMessage {
  readonly told: boolean;
}

/** The request and the response of each RPC. */
export interface NodeRpcs {
  FindVolume: [{ readonly name: string }, { readonly volume_id: string }];
  FindSnapshot: [
    { readonly snapshot_id: string; readonly snapshot: SnapshotMessage | null },
    {
      readonly snapshot: SnapshotMessage | null;
      readonly pull: PullStateMessage | null;
      readonly bases: readonly BaseMessage[];
    },
  ];
  OpenTransfer: [
    {
      readonly snapshot_id: string;
      readonly reader: string;
      readonly bases: readonly BaseMessage[];
      readonly offset: string;
    },
    PieceMessage,
  ];
  CloseTransfer: [{ readonly snapshot_id: string; readonly reader: string }, object];
  SnapshotForClone: [{ readonly volume_id: string; readonly clone_name: string }, { readonly snapshot_id: string }];
  PullSnapshot: [
    {
      readonly snapshot: SnapshotMessage | null;
      readonly pool: string;
      readonly host: string;
      readonly piece: PieceMessage | null;
      readonly asked: boolean;
      readonly wait_ms: number;
      readonly clone_name: string;
    },
    PullStateMessage,
  ];
  KeepReplica: [PromiseMessage, object];
  EndReplica: [PromiseMessage, object];
  DeleteReplica: [{ readonly snapshot_id: string }, object];
  CreateCopiedSnapshot: [{ readonly request: Buffer; readonly node_id: string }, { readonly response: Buffer }];
  FindRoom: [{ readonly volume_id: string; readonly pool: string }, RoomMessage];
  FindCopy: [
    { readonly snapshot_id: string },
    { readonly own: string | number; readonly catalogue_uuid: string; readonly kept: SnapshotMessage | null },
  ];
  ListCopies: [
    { readonly kept: boolean },
    {
      readonly copies: readonly CopyMessage[];
      readonly awaits_clearance: boolean;
      readonly untold: readonly SuccessionMessage[];
    },
  ];
  ClearStaging: [object, object];
  SupersedeVolume: [SuccessionMessage, object];
  CordonVolume: [CordonMessage, object];
  RecordSuccession: [SuccessionMessage, object];
  ListSuccessions: [object, { readonly successions: readonly SuccessionMessage[] }];
  ChooseCopy: [PromiseMessage & { readonly node_id: string }, object];
  ReportCopy: [PromiseMessage & { readonly outcome: string | number; readonly failure: string }, object];
  DigestSnapshot: [
    { readonly snapshot_id: string; readonly offset: string; readonly length_bytes: string },
    { readonly sha256: Buffer; readonly size_bytes: string },
  ];
  ListPulls: [
    object,
    {
      readonly pulls: readonly {
        readonly snapshot: SnapshotMessage | null;
        readonly state: PullStateMessage | null;
        readonly pool: string;
        readonly clone_name: string;
      }[];
    },
  ];
}

export type NodeRpc = keyof NodeRpcs;

let loaded: LoadedProto<'Node'> | undefined;

/** The first call loads the proto, and throws if that fails. */
export function nodeProto(): LoadedProto<'Node'> {
  loaded ??= loadProto('proto/node.proto', NODE_PACKAGE, ['Node']);
  return loaded;
}

export function nodeMethod(rpc: NodeRpc): MethodDefinition<object, object> {
  const method = nodeProto().services.Node[rpc];
  if (method === undefined) throw new Error(`proto/node.proto has no ${NODE_SERVICE}.${rpc}`);
  return method;
}
