/** blockdelta.router.v1, loaded from proto/router.proto: what an operator asks a router besides CSI. Both sides use this file. */
import type { MethodDefinition } from '@grpc/grpc-js';
import { type LoadedProto, loadProto } from './proto.js';

const ROUTER_PACKAGE = 'blockdelta.router.v1';
export const ROUTER_SERVICE = `${ROUTER_PACKAGE}.Router`;

export interface SupersedeMessage {
  readonly old_volume_id: string;
  readonly new_volume_id: string;
}

export interface CordonMessage {
  readonly volume_id: string;
  readonly undo: boolean;
}

export interface KeptCopyMessage {
  readonly snapshot_id: string;
  readonly node_id: string;
}

/** The request and the response of each RPC. */
export interface RouterRpcs {
  Supersede: [SupersedeMessage, object];
  Cordon: [CordonMessage, object];
  ListCopies: [
    { readonly snapshot_id: string },
    { readonly copies: readonly KeptCopyMessage[]; readonly unreachable: readonly string[] },
  ];
  CompareCopy: [
    KeptCopyMessage & { readonly offset: string },
    { readonly result: string | number; readonly why: string; readonly end: string; readonly size_bytes: string },
  ];
  DeleteCopies: [{ readonly snapshot_id: string }, { readonly unreachable: readonly string[] }];
}

export type RouterRpc = keyof RouterRpcs;

let loaded: LoadedProto<'Router'> | undefined;

/** The first call loads the proto, and throws if that fails. */
export function routerProto(): LoadedProto<'Router'> {
  loaded ??= loadProto('proto/router.proto', ROUTER_PACKAGE, ['Router']);
  return loaded;
}

export function routerMethod(rpc: RouterRpc): MethodDefinition<object, object> {
  const method = routerProto().services.Router[rpc];
  if (method === undefined) throw new Error(`proto/router.proto has no ${ROUTER_SERVICE}.${rpc}`);
  return method;
}
