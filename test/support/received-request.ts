/** Requests as a handler receives them, for tests that call handlers without a server. */
import { csiMessage } from '../../src/base/csi/proto.js';
import type { CallContext, RequestOf, RpcName } from '../../src/base/csi/service.js';
import { requestDecoder } from '../../src/server/calls/request-decoder.js';

/** These fields of a request, encoded and decoded: all others are there with their empty value. */
export function received<R extends RpcName>(rpc: R, fields: object = {}): RequestOf<R> {
  const type = csiMessage(`${rpc}Request`);
  const bytes = Buffer.from(type.encode(type.fromObject(fields)).finish());
  const { message, refusal } = requestDecoder(type)(bytes);
  if (refusal !== null) throw refusal;
  return message as RequestOf<R>;
}

/** The context of a call, for handlers that need nothing of it. */
export const noContext = {} as CallContext;
