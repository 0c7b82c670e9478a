/** blockdelta.node.v1, loaded from proto/node.proto: what a router asks of a node besides CSI. Both sides of it. */
import { type LoadedProto, loadProto } from './proto.js';

export const NODE_PACKAGE = 'blockdelta.node.v1';
export const NODE_SERVICE = `${NODE_PACKAGE}.Node`;

let loaded: LoadedProto<'Node'> | undefined;

/** The first call loads it, and throws if that fails. */
export function nodeProto(): LoadedProto<'Node'> {
  loaded ??= loadProto('proto/node.proto', NODE_PACKAGE, ['Node']);
  return loaded;
}

/** The definition of its one RPC. */
export function findVolumeMethod() {
  const method = nodeProto().services.Node['FindVolume'];
  if (method === undefined) throw new Error(`proto/node.proto has no ${NODE_SERVICE}.FindVolume`);
  return method;
}
