/**
 * Calls v1 handlers on behalf of one call of an older interface. A request is built from the given fields and
 * passed through the wire format of v1, so it arrives like any other request.
 */

import { csiMessage, csiProto } from '../../base/csi/proto.js';
import { type CallContext, ResponseParts, type RpcName, type ServiceName } from '../../base/csi/service.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import { requestDecoder } from '../../server/calls/request-decoder.js';
import type { FindHandler } from '../../server/calls/served-rpc.js';

// biome-ignore lint/suspicious/noExplicitAny: messages are plain objects of the shape of their proto
export type Message = Record<string, any>;

/** How the requests of an older interface differ from the v1 requests with the same meaning. */
export interface Edge {
  readonly packageName: string;
  /** For each v1 RPC: the fields that have another name in the older interface, with the older name. */
  readonly names: { readonly [R in RpcName]?: Readonly<Record<string, string>> };
  /** Conversions of values, by the field's name in v1. A conversion may throw to refuse a value. */
  readonly conversions: Readonly<Record<string, (value: never) => unknown>>;
}

interface V1Rpc {
  readonly service: ServiceName;
  encode(fields: object): Buffer;
  decode: ReturnType<typeof requestDecoder>;
}

const rpcs = new Map<RpcName, V1Rpc>();

export class V1Calls {
  /** @param context the context of the call of the older interface */
  constructor(
    private readonly find: FindHandler,
    private readonly context: CallContext,
    private readonly edge: Edge,
  ) {}

  /** The fields of the v1 request with the same meaning. Fields that v1 does not have are left out. */
  fieldsOf(rpc: RpcName, request: Message): Message {
    const { names, conversions } = this.edge;
    const fields = Object.keys(csiMessage(`${rpc}Request`).fields).flatMap((name) => {
      const old = names[rpc]?.[name] ?? name;
      const value = request[old];
      if (value === undefined) return [];
      const convert = conversions[name] ?? CONVERSIONS[name];
      return [[name, convert === undefined ? value : convert(value as never)]];
    });
    return Object.fromEntries(fields) as Message;
  }

  async call(rpc: RpcName, fields: Message): Promise<Message> {
    const response = await this.list(rpc, fields);
    if (!(response instanceof ResponseParts)) return response;
    throw CsiError.internal(`${rpc} answered with a list in parts`);
  }

  /** Like `call`, for RPCs whose response may be too long for one message. Absent fields get their empty value. */
  async list(rpc: RpcName, fields: Message): Promise<Message | ResponseParts<Message>> {
    const { service, encode, decode } = rpcOf(rpc);
    const handler = await this.find(service, rpc, this.context);
    const { message, refusal, encoded } = decode(encode(fields));
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
      return await handler(message as never, context);
    } catch (thrown) {
      throw this.#withNames(rpc, CsiError.from(thrown));
    }
  }

  /** Adds the older names to a refusal, because it names fields of v1, which the caller does not know. */
  #withNames(rpc: RpcName, error: CsiError): CsiError {
    const names = Object.entries(this.edge.names[rpc] ?? {});
    if (error.code !== StatusCode.INVALID_ARGUMENT || names.length === 0) return error;
    const translated = names.map(([name, old]) => `${name} is ${old}`).join(', ');
    const message = `${error.message} (names in ${this.edge.packageName}: ${translated})`;
    return new CsiError(error.code, message, { cause: error });
  }
}

/** The conversions for both older versions, whose capabilities have the same fields. */
const CONVERSIONS: Edge['conversions'] = {
  volume_capability: (given: Message | null) => capability(given, 'volume_capability'),
  volume_capabilities: (given: readonly Message[]) =>
    given.map((each, index) => capability(each, `volume_capabilities[${index}]`)),
};

/** INVALID_ARGUMENT for a mode that the older versions do not have: v1 may give its number a meaning. */
function capability(given: Message | null, field: string): Message | null {
  const mode = given?.['access_mode']?.mode;
  if (typeof mode !== 'number') return given;
  throw CsiError.invalidArgument(`${field}.access_mode.mode ${mode} is not known in this version of CSI`);
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
