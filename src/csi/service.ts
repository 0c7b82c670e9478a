/**
 * What a CSI service looks like to the gRPC side: handlers by RPC name, plain objects in and out.
 *
 * Services implement these types and never see a gRPC call; csi/handler.ts and csi/stream.ts are
 * the only places that do. Requests are what proto-loader decodes: snake_case fields, int64 as
 * decimal strings, enums by name, null for absent messages.
 */
export type ServiceName =
  | 'Identity'
  | 'Controller'
  | 'GroupController'
  | 'Node'
  | 'SnapshotMetadata';

/** A decoded request: unparsed, so every field is unknown until a parse function has looked at it. */
export type RequestMessage = Readonly<Record<string, unknown>>;
export type ResponseMessage = Record<string, unknown>;

/** One call in progress. */
export interface CallContext {
  /** Adds fields to the one line that is logged when the call ends. Never secrets. */
  note(fields: Readonly<Record<string, string | number | bigint | boolean>>): void;
}

/** One stream in progress. */
export interface StreamContext extends CallContext {
  /** Aborted when nobody waits for the stream any more; its reason is a CsiError. */
  readonly signal: AbortSignal;
  /** Who calls: the same object for all calls of one connection. */
  readonly peer: object;
}

/**
 * A response too long to be made and encoded at once: messages of its type, merged as protobuf merges
 * them, so that the entries of a list add up. Each is made when the one before it is encoded.
 */
export class ResponseParts {
  constructor(readonly parts: AsyncIterable<ResponseMessage>) {}
}

export type UnaryHandler = (
  request: RequestMessage,
  context: CallContext,
) => Promise<ResponseMessage | ResponseParts>;

/** Takes ready wire bytes; the only way for a service to send on a stream. */
export interface MessageWriter {
  /**
   * Sends every message of a chunk: messages one behind the other, each after its 5-byte gRPC length
   * prefix. Resolves when the transport is done with the memory, so that it may be filled again. A
   * slow client makes it slow.
   *
   * Rejects when the call is over: CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE if the plugin stops.
   * The memory must then be dropped, since messages under way may still be read from it.
   */
  send(chunk: Uint8Array): Promise<void>;
}

export type StreamHandler = (
  request: RequestMessage,
  context: StreamContext,
  writer: MessageWriter,
) => Promise<void>;

/** The service with more RPCs, for one whose handlers do not all come from one place. */
export function withRpcs(service: Service, unary: Service['unary']): Service {
  return { ...service, unary: { ...service.unary, ...unary } };
}

/** An RPC that is absent from both tables answers UNIMPLEMENTED. */
export interface Service {
  readonly name: ServiceName;
  readonly unary: Readonly<Record<string, UnaryHandler>>;
  readonly streams: Readonly<Record<string, StreamHandler>>;
}
