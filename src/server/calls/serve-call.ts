/**
 * Every step between gRPC and the handler of an RPC. A call passes these steps in this order:
 *
 *  1. CallRegistry.open: id, deadline and cancellation, span, log
 *  2. CallRegistry.admit: the limits of calls and of bytes in flight
 *  3. StreamPlaces.enter, for streams: the limit of streams
 *  4. Served.find: the wait for a service that is still starting
 *  5. Call.request: bytes that are not a valid request are refused
 *  6. Served.check: requests that this process refuses, whatever the RPC does
 *  7. the handler
 *  8. statusOf: any error becomes a status with only a code and a message, because CSI forbids details
 *  9. Call.finish: the line in the log, which has the cause and the details of an error
 *
 * This is our only file that ends an open call. Before a call is open, incoming-calls.ts may refuse it. A stream ends with OK
 * only if its handler completed and the call was not aborted. Knows neither services nor connections.
 */
import { setImmediate } from 'node:timers/promises';
import type { handleUnaryCall } from '@grpc/grpc-js';
import {
  type AnyStreamHandler,
  type AnyUnaryHandler,
  type CallContext,
  EncodedResponse,
  ResponseParts,
} from '../../base/csi/service.js';
import { type CsiError, StatusCode } from '../../base/errors.js';
import { statusOf } from './call-status.js';
import { closeLater } from './call-stream.js';
import type { CallRegistry, Rpc } from './calls.js';
import { originOf } from './incoming-calls.js';
import type { DecodedMessage, DecodedRequest } from './request-decoder.js';
import { type StreamCall, type StreamLimits, StreamWriter } from './stream-writer.js';

/** How long a client that has missed its deadline, and has stopped waiting, may take to receive the status. */
const LATE_STATUS_MS = 250;
/** How long a client that reads nothing may take to receive the status. Then its stream ends, which frees the memory. */
const STALLED_STATUS_MS = 20_000;

export interface UnaryRpc extends Rpc {
  /** Throws if the response does not fit its message type. */
  encode(response: object): Buffer;
}

/** What a call needs of the server that serves it. */
export interface Served<Handler> {
  readonly calls: CallRegistry;
  /** Resolves when the service has started; rejects with the error to return. */
  find(call: Pick<CallContext, 'deadline' | 'signal'>): Promise<Handler>;
  /** Throws the error to return for a request that the handler must not see. */
  check(request: DecodedMessage): void;
}

/** The gRPC handler of a unary method. gRPC sends the encoded response unchanged. */
export function unary(
  rpc: UnaryRpc,
  { calls, find, check }: Served<AnyUnaryHandler>,
): handleUnaryCall<DecodedRequest, Buffer> {
  return async function serveUnary(grpcCall, callback) {
    const call = calls.open(rpc, grpcCall);
    let response: Buffer | null = null;
    let error: CsiError | null = null;
    try {
      calls.admit(rpc);
      const handler = await find(call);
      check(call.request);
      const answer = await call.run(() => handler(call.request as never, call));
      response = await encoded(rpc, answer, call.signal);
    } catch (thrown) {
      error = call.errorOf(thrown);
    }
    try {
      callback(error === null ? null : statusOf(error), response);
    } catch (thrown) {
      // The call is not answered a second time.
      error ??= call.errorOf(thrown);
    }
    call.finish(error);
  };
}

/** Encodes a response. A long response is encoded in parts, and other calls run in between. */
async function encoded(rpc: UnaryRpc, response: object | ResponseParts<object>, signal: AbortSignal): Promise<Buffer> {
  if (response instanceof EncodedResponse) return response.bytes;
  if (!(response instanceof ResponseParts)) return rpc.encode(response);
  const pieces: Buffer[] = [];
  for await (const part of response.parts) {
    signal.throwIfAborted();
    pieces.push(rpc.encode(part));
    await setImmediate();
  }
  return Buffer.concat(pieces);
}

/** The gRPC handler of a method that streams its responses. */
export function streaming(
  rpc: Rpc,
  limits: StreamLimits,
  { calls, find, check }: Served<AnyStreamHandler>,
): (grpcCall: StreamCall) => Promise<void> {
  return async function serveStream(grpcCall) {
    const call = calls.open(rpc, grpcCall);
    const writer = new StreamWriter(grpcCall, call, limits);
    call.observer.streamStarted(rpc, writer.sums);
    let error: CsiError | null = null;
    try {
      calls.admit(rpc);
      limits.places.enter(writer);
      const handler = await find(call);
      check(call.request);
      await call.run(() => handler(call.request as never, call, writer));
      // A handler that returned because of the abort has not sent everything.
      call.signal.throwIfAborted();
    } catch (thrown) {
      error = call.errorOf(thrown);
    }
    limits.places.leave(writer);
    writer.close();
    call.observer.streamEnded(rpc, writer.sums, error !== null && isGone(error));
    call.note({ ...writer.sums, waitMs: Math.round(writer.sums.waitMs) });
    if (error === null) grpcCall.end();
    else if (!grpcCall.cancelled) sendError(grpcCall, error, writer.stalledSince !== null);
    // gRPC sends the status behind the messages, so a client that does not read would never learn of its deadline.
    const stream = originOf(grpcCall.metadata)?.stream ?? null;
    if (error?.code === StatusCode.DEADLINE_EXCEEDED && stream) closeLater(stream, LATE_STATUS_MS);
    call.finish(error);
  };
}

/** Whether the client has ended the call. */
function isGone({ code }: CsiError): boolean {
  return code === StatusCode.CANCELLED || code === StatusCode.DEADLINE_EXCEEDED;
}

/**
 * If the client does not read, the messages that wait for it are dropped, which frees their memory. Otherwise the error
 * follows the messages. The 'error' event makes grpc-js send the code and the message of the error after them; neither `end`
 * with a status nor `destroy` does so.
 */
function sendError(grpcCall: StreamCall, error: CsiError, isStalled: boolean): void {
  const origin = originOf(grpcCall.metadata);
  if (!isStalled || origin === undefined) {
    grpcCall.emit('error', statusOf(error));
    return;
  }
  grpcCall.destroy();
  origin.abandon(statusOf(error));
  if (origin.stream !== null) closeLater(origin.stream, STALLED_STATUS_MS);
}
