/**
 * How the gRPC side sees a CSI service: one handler for each RPC, plain objects in and out.
 *
 * The types follow proto/csi.proto through generated/ (`scripts/generate-types`). Services implement the types and never see a
 * gRPC call; only server/ handles such calls.
 */
import type { handleServerStreamingCall, handleUnaryCall } from '@grpc/grpc-js';
import type { Long } from '@grpc/proto-loader';
import type { ControllerHandlers } from './generated/csi/v1/Controller.js';
import type { GroupControllerHandlers } from './generated/csi/v1/GroupController.js';
import type { IdentityHandlers } from './generated/csi/v1/Identity.js';
import type { NodeHandlers } from './generated/csi/v1/Node.js';
import type { SnapshotMetadataHandlers } from './generated/csi/v1/SnapshotMetadata.js';

interface GeneratedHandlers {
  Identity: IdentityHandlers;
  Controller: ControllerHandlers;
  GroupController: GroupControllerHandlers;
  Node: NodeHandlers;
  SnapshotMetadata: SnapshotMetadataHandlers;
}

export type ServiceName = keyof GeneratedHandlers;

/** The generated interfaces accept any further name through an index signature. This type drops the signature. */
export type NamedMembers<T> = {
  [Name in keyof T as string extends Name ? never : number extends Name ? never : Name]: T[Name];
};

type GeneratedRpcs = NamedMembers<IdentityHandlers> &
  NamedMembers<ControllerHandlers> &
  NamedMembers<GroupControllerHandlers> &
  NamedMembers<NodeHandlers> &
  NamedMembers<SnapshotMetadataHandlers>;

export type RpcName = keyof GeneratedRpcs;

type UnaryRpcs<S extends ServiceName> = {
  [R in keyof NamedMembers<GeneratedHandlers[S]> & RpcName]: GeneratedRpcs[R] extends Unary ? R : never;
}[keyof NamedMembers<GeneratedHandlers[S]> & RpcName];

type StreamRpcs<S extends ServiceName> = Exclude<keyof NamedMembers<GeneratedHandlers[S]> & RpcName, UnaryRpcs<S>>;

// biome-ignore lint/suspicious/noExplicitAny: any handler of the kind, whatever its messages
type Unary = handleUnaryCall<any, any>;

/**
 * A message in JavaScript: the generated type, except that an enum may also hold a number, which is a
 * value that this proto does not know, and that an int64 is a decimal string and nothing else.
 */
export type Message<T> = T extends string
  ? string extends T
    ? T
    : T | number
  : T extends object
    ? {
        readonly [Field in keyof T]: [Extract<T[Field], Long>] extends [never] ? Message<T[Field]> : string;
      }
    : T;

/** A request as the decoder returns it: every field is there, and an unset message is null. */
export type RequestOf<R extends RpcName> = GeneratedRpcs[R] extends
  | handleUnaryCall<infer Request, infer _>
  | handleServerStreamingCall<infer Request, infer _>
  ? Message<Request>
  : never;

/** A response as the encoder takes it: a field that is left out has its empty value. */
export type ResponseOf<R extends RpcName> =
  GeneratedRpcs[R] extends handleUnaryCall<infer _, infer Response> ? Message<Response> : never;

export interface CallContext {
  /** Adds fields to the one line that is logged when the call ends. Never secrets. */
  note(fields: Readonly<Record<string, string | number | bigint | boolean>>): void;
  /** Aborted when the caller no longer waits for the response; its reason is a CsiError. */
  readonly signal: AbortSignal;
  /** When the caller stops waiting, in milliseconds since the epoch; Infinity if it set no deadline. */
  readonly deadline: number;
  /** Who calls: the same object for all calls of one connection, or of one client behind a router. */
  readonly peer: object;
  /** The request as received, with fields that the proto does not know. May hold secrets. */
  readonly encodedRequest: Buffer;
  /**
   * True if the caller makes the targets of publications and keeps them, as before CSI v1. Otherwise the plugin makes and
   * removes the targets.
   */
  readonly callerMakesTargets?: boolean;
}

export type StreamContext = CallContext;

/**
 * A response that is too long to be made and encoded at once. Its parts are messages of its type, which add up as protobuf
 * merges messages: the entries of a list are joined. Each part is made when the part before it is encoded.
 */
export class ResponseParts<Response> {
  constructor(readonly parts: AsyncIterable<Response>) {}
}

/** A response that is encoded already and sent as it is. */
export class EncodedResponse {
  constructor(readonly bytes: Buffer) {}
}

export type UnaryHandler<R extends RpcName> = (
  request: RequestOf<R>,
  context: CallContext,
) => Promise<ResponseOf<R> | ResponseParts<ResponseOf<R>>>;

/** A unary handler that also takes its dependencies, as the files of a service define it. */
export type HandlerWith<Dependencies, R extends RpcName> = (
  deps: Dependencies,
  ...call: Parameters<UnaryHandler<R>>
) => ReturnType<UnaryHandler<R>>;

/** Accepts encoded messages; the only way for a service to send on a stream. */
export interface MessageWriter {
  /**
   * Sends every message of a chunk, in which each message follows its 5-byte gRPC length prefix.
   * Resolves when the transport no longer needs the memory, so that it can be reused; how long that takes
   * depends on the client.
   *
   * Rejects when the call is over: CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE if the plugin stops.
   * The memory must not be reused then, since messages in flight may still be read from it.
   */
  send(chunk: Uint8Array): Promise<void>;
}

/** An encoded message that has its gRPC prefix and is sent from its pieces, or copied once where gRPC writes the prefix. */
export interface EncodedMessage {
  readonly byteLength: number;
  copy(target: Buffer, start: number): void;
  /** The prefix and the message, in order. */
  readonly framePieces: readonly Buffer[];
}

/** Also passes on messages that somebody else has encoded. */
export interface RelayWriter extends MessageWriter {
  /**
   * Sends whole messages, one behind the other. Resolves when the client has taken enough for more messages to be sent, which
   * bounds the memory of a stream; rejects as `send` does. The memory of the messages must not change any more.
   */
  forward(messages: readonly EncodedMessage[]): Promise<void>;
}

export type StreamHandler<R extends RpcName> = (
  request: RequestOf<R>,
  context: StreamContext,
  writer: MessageWriter,
) => Promise<void>;

/** An RPC that is absent from its table answers UNIMPLEMENTED. */
export type UnaryHandlers<S extends ServiceName> = {
  readonly [R in UnaryRpcs<S>]?: UnaryHandler<R>;
};
export type StreamHandlers<S extends ServiceName> = {
  readonly [R in StreamRpcs<S>]?: StreamHandler<R>;
};

/** Binds every handler of a table to its dependencies. */
export function boundTo<Dependencies, S extends ServiceName>(
  deps: Dependencies,
  handlers: { readonly [R in UnaryRpcs<S>]?: HandlerWith<Dependencies, R> },
): UnaryHandlers<S> {
  const table: [string, HandlerWith<Dependencies, never>][] = Object.entries(handlers);
  const bound = table.map(([rpc, handler]) => [rpc, handler.bind(null, deps)]);
  return Object.fromEntries(bound) as UnaryHandlers<S>;
}

export interface Service<S extends ServiceName> {
  readonly name: S;
  readonly unary: UnaryHandlers<S>;
  readonly streams: StreamHandlers<S>;
}

export type AnyService = { [S in ServiceName]: Service<S> }[ServiceName];

/** A handler of an RPC that is known only at run time, as the server finds it. */
export type AnyUnaryHandler = (request: never, context: CallContext) => Promise<object>;
export type AnyStreamHandler = (request: never, context: StreamContext, writer: RelayWriter) => Promise<void>;

/** Adds RPCs to a service whose handlers do not all come from one place. */
export function withRpcs<S extends ServiceName>(service: Service<S>, unary: UnaryHandlers<S>): Service<S> {
  return { ...service, unary: { ...service.unary, ...unary } };
}
