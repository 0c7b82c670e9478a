/**
 * Calls of v1 handlers on behalf of one call of an older interface. A request is built from the fields that
 * are given, passed through the wire format of v1, and so arrives like any other request.
 */

import { csiMessage, csiProto } from '../../base/csi/proto.js';
import {
  type AnyUnaryHandler,
  type CallContext,
  type RequestOf,
  type ResponseOf,
  ResponseParts,
  type RpcName,
  type ServiceName,
} from '../../base/csi/service.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import { requestDecoder } from '../csi/request-decoder.js';

/** Fields of a message; those that are left out have their empty value. */
export type Fields<T> = T extends readonly (infer Element)[]
  ? readonly Fields<Element>[]
  : T extends object
    ? { readonly [Name in keyof T]?: Fields<T[Name]> | undefined }
    : T;

/** For each RPC of v1: its fields that have another name in the older interface, with that name. */
export type FieldNames = { readonly [R in RpcName]?: Readonly<Record<string, string>> };

/** Resolves when the service is served; rejects with the error to return. */
export type FindHandler = (
  service: ServiceName,
  rpc: RpcName,
  signal: AbortSignal,
) => Promise<AnyUnaryHandler>;

interface V1Rpc {
  readonly service: ServiceName;
  encode(fields: object): Buffer;
  decode: ReturnType<typeof requestDecoder>;
}

const rpcs = new Map<RpcName, V1Rpc>();

export class V1Calls {
  /**
   * @param context of the call of the older interface
   * @param packageName of that interface, for messages
   */
  constructor(
    private readonly find: FindHandler,
    private readonly context: CallContext,
    private readonly packageName: string,
    private readonly names: FieldNames,
  ) {}

  async call<R extends RpcName>(rpc: R, fields: Fields<RequestOf<R>>): Promise<ResponseOf<R>> {
    const response = await this.list(rpc, fields);
    if (!(response instanceof ResponseParts)) return response;
    throw CsiError.internal(`${rpc} answered with a list in parts`);
  }

  /** As `call`, for RPCs whose response may be too long for one message. */
  async list<R extends RpcName>(
    rpc: R,
    fields: Fields<RequestOf<R>>,
  ): Promise<ResponseOf<R> | ResponseParts<ResponseOf<R>>> {
    const { service, encode, decode } = rpcOf(rpc);
    const handler = await this.find(service, rpc, this.context.signal);
    const { message, refusal, encoded } = decode(encode(fields as object));
    if (refusal !== null) throw refusal;
    const { signal, deadline, peer } = this.context;
    const context: CallContext = {
      signal,
      deadline,
      peer,
      encodedRequest: encoded,
      callerMakesTargets: true,
      note: (notes) => this.context.note(notes),
    };
    try {
      return (await handler(message as never, context)) as ResponseOf<R>;
    } catch (thrown) {
      throw this.#withNames(rpc, CsiError.from(thrown));
    }
  }

  /** Refusals name the fields of v1, which the caller does not know. */
  #withNames(rpc: RpcName, error: CsiError): CsiError {
    const names = Object.entries(this.names[rpc] ?? {});
    if (error.code !== StatusCode.INVALID_ARGUMENT || names.length === 0) return error;
    const translated = names.map(([name, old]) => `${name} is ${old}`).join(', ');
    const message = `${error.message} (names in ${this.packageName}: ${translated})`;
    return new CsiError(error.code, message, { cause: error });
  }
}

function rpcOf(rpc: RpcName): V1Rpc {
  const known = rpcs.get(rpc);
  if (known !== undefined) return known;
  const { services } = csiProto();
  const names = Object.keys(services) as ServiceName[];
  const service = names.find((name) => services[name][rpc] !== undefined);
  const definition = service === undefined ? undefined : services[service][rpc];
  if (service === undefined || definition === undefined) {
    throw CsiError.internal(`proto/csi.proto has no RPC ${rpc}`);
  }
  const found = {
    service,
    encode: definition.requestSerialize,
    decode: requestDecoder(csiMessage(`${rpc}Request`)),
  };
  rpcs.set(rpc, found);
  return found;
}
