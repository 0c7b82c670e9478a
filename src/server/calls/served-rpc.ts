/** RPCs that the server serves besides the services of CSI v1, and how they find handlers of v1. */
import type { MethodDefinition } from '@grpc/grpc-js';
import type protobuf from 'protobufjs';
import type { AnyUnaryHandler, CallContext, RpcName, ServiceName } from '../../base/csi/service.js';

/** Resolves to the handler when the service is served; rejects with the error to return. */
export type FindHandler = (
  service: ServiceName,
  rpc: RpcName,
  call: Pick<CallContext, 'deadline' | 'signal'>,
) => Promise<AnyUnaryHandler>;

export interface ServedRpc {
  /** With its package: `csi.v0.Node`. */
  readonly service: string;
  readonly name: string;
  readonly definition: MethodDefinition<object, object>;
  readonly requestType: protobuf.Type;
  /** @param find finds handlers of v1 */
  handler(find: FindHandler): AnyUnaryHandler;
}
