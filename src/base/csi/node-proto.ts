/** blockdelta.node.v1, loaded from proto/node.proto: what a router asks a node besides CSI. Both sides use this file. */
import { type LoadedProto, loadProto } from './proto.js';

export const NODE_PACKAGE = 'blockdelta.node.v1';
export const NODE_SERVICE = `${NODE_PACKAGE}.Node`;

let loaded: LoadedProto<'Node'> | undefined;

/** The first call loads the proto, and throws if that fails. */
export function nodeProto(): LoadedProto<'Node'> {
  loaded ??= loadProto('proto/node.proto', NODE_PACKAGE, ['Node']);
  return loaded;
}

/** The definition of the service's only RPC. */
export function findVolumeMethod() {
  const method = nodeProto().services.Node['FindVolume'];
  if (method === undefined) throw new Error(`proto/node.proto has no ${NODE_SERVICE}.FindVolume`);
  return method;
}
