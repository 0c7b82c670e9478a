/**
 * blockdelta.restore.v1, loaded from proto/restore.proto: what a restore in place asks of the plugin besides CSI. Both sides use
 * this file.
 */
import type { MethodDefinition } from '@grpc/grpc-js';
import { type LoadedProto, loadProto } from './proto.js';

const RESTORE_PACKAGE = 'blockdelta.restore.v1';
export const RESTORE_SERVICE = `${RESTORE_PACKAGE}.InPlaceRestore`;
/** The key of the token among the secrets of NodeStageVolume. */
export const RESTORE_TOKEN = 'blockdelta-restore-token';

/** The request and the response of each RPC. */
export interface RestoreRpcs {
  BeginRestore: [
    { readonly volume_id: string; readonly command: string },
    { readonly token: string; readonly snapshot_name: string; readonly is_new: boolean },
  ];
  EndRestore: [{ readonly volume_id: string; readonly token: string }, object];
}

export type RestoreRpc = keyof RestoreRpcs;

let loaded: LoadedProto<'InPlaceRestore'> | undefined;

/** The first call loads the proto, and throws if that fails. */
export function restoreProto(): LoadedProto<'InPlaceRestore'> {
  loaded ??= loadProto('proto/restore.proto', RESTORE_PACKAGE, ['InPlaceRestore']);
  return loaded;
}

/** Undefined if the service has no such RPC. */
export const restoreMethod = (rpc: string): MethodDefinition<object, object> | undefined =>
  restoreProto().services.InPlaceRestore[rpc];
