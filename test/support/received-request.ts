/** Requests as a handler receives them, for tests that call handlers without a server. */
import { CSI_PACKAGE, csiProto } from '../../src/csi/proto.js';
import { requestDecoder } from '../../src/csi/request-decoder.js';
import type { RequestOf, RpcName } from '../../src/csi/service.js';

/** These fields of a request, encoded and decoded: all others are there with their empty value. */
export function received<R extends RpcName>(rpc: R, fields: object = {}): RequestOf<R> {
  const typeName = `${rpc}Request`;
  const type = csiProto().root.lookupType(`${CSI_PACKAGE}.${typeName}`);
  const bytes = Buffer.from(type.encode(type.fromObject(fields)).finish());
  const { message, refusal } = requestDecoder(typeName)(bytes);
  if (refusal !== null) throw refusal;
  return message as RequestOf<R>;
}
