/** A node as a router sees it: a connection that answers blockdelta.node.v1 from a table, and notes what it was asked. */
import { nodeKey } from '../../src/base/csi/handles.js';
import { type NodeRpc, type NodeRpcs, nodeMethod } from '../../src/base/csi/node-proto.js';
import { CsiError } from '../../src/base/errors.js';
import type { NodeCall, NodeConnection } from '../../src/router/node-connection.js';

export type Answers = { [R in NodeRpc]?: (request: NodeRpcs[R][0]) => object | Promise<object> };

export interface AnsweringNode {
  readonly node: NodeConnection;
  /** The names of the RPCs. */
  readonly asked: string[];
}

/** @param state what the router knows of the connection */
export function answeringNode(
  id: string,
  answers: Answers,
  state: Partial<Pick<NodeConnection, 'isConnected' | 'unreachableSince'>> = {},
): AnsweringNode {
  const asked: string[] = [];
  const unary = async ({ path, request }: NodeCall): Promise<Buffer> => {
    const rpc = path.split('/').at(-1) as NodeRpc;
    const { requestDeserialize, responseSerialize } = nodeMethod(rpc);
    const decoded = requestDeserialize(request) as never;
    asked.push(rpc);
    const answer = answers[rpc];
    if (answer === undefined) throw CsiError.unimplemented(`${rpc} is not known`);
    return responseSerialize(await (answer as (request: never) => object)(decoded));
  };
  const known = { id, key: nodeKey(id), address: '10.0.0.1:9810', isConnected: true, unreachableSince: null };
  return { node: { ...known, ...state, unary } as never, asked };
}
