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

/** The request of each RPC. Every response is empty. */
export interface RouterRpcs {
  Supersede: SupersedeMessage;
  Cordon: CordonMessage;
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
