/** Calls of blockdelta.node.v1, which only routers make. */
import { type NodeRpc, type NodeRpcs, nodeMethod } from '../base/csi/node-proto.js';
import type { NodeCall, NodeConnection } from './node-connection.js';

/** Rejects with the status of the node, or with UNAVAILABLE if the node cannot be reached. */
export async function callNode<R extends NodeRpc>(
  node: Pick<NodeConnection, 'unary'>,
  rpc: R,
  request: NodeRpcs[R][0],
  call: Omit<NodeCall, 'path' | 'request'>,
): Promise<NodeRpcs[R][1]> {
  const { path, requestSerialize, responseDeserialize } = nodeMethod(rpc);
  const answer = await node.unary({ ...call, path, request: requestSerialize(request) });
  return responseDeserialize(answer) as NodeRpcs[R][1];
}
