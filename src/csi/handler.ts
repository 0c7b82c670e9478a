/**
 * Turns the handlers of a service into what gRPC calls: errors become statuses, responses bytes.
 *
 * A status has a code and a message and nothing else, because CSI forbids details. The log line of the
 * call has the cause and the details of an error.
 */
import { setImmediate } from 'node:timers/promises';
import type { handleUnaryCall } from '@grpc/grpc-js';
import { type CsiError, StatusCode } from '../base/errors.js';
import { inCallSpan } from './call-span.js';
import type { CallRegistry, Rpc } from './calls.js';
import type { DecodedRequest } from './request-decoder.js';
import { type AnyUnaryHandler, EncodedResponse, ResponseParts } from './service.js';

/** What the client of a failed call receives. */
export interface CallStatus {
  code: StatusCode;
  details: string;
}

export interface UnaryRpc extends Rpc {
  /** Throws if the response does not fit its message type. */
  encode(response: object): Buffer;
}

/**
 * Limit of a status message after percent-encoding. It is sent in a header, and clients limit the size of
 * the headers they accept (8 KiB in C++ gRPC).
 */
const MAX_ENCODED_MESSAGE = 4096;

/**
 * @param find resolves to the handler, possibly only when the plugin has started, or rejects with the
 *   error to return; the signal is the call's
 * @returns a handler for a method whose responses are sent as they are
 */
export function createUnaryHandler(
  rpc: UnaryRpc,
  calls: CallRegistry,
  find: (signal: AbortSignal) => Promise<AnyUnaryHandler>,
): handleUnaryCall<DecodedRequest, Buffer> {
  return async (grpcCall, callback) => {
    const call = calls.open(rpc, grpcCall);
    let error: CsiError | null = null;
    try {
      calls.admit(rpc);
      const handler = await find(call.signal);
      const response = await inCallSpan(rpc, grpcCall.metadata, async () =>
        encoded(rpc, await handler(call.request as never, call), call.signal),
      );
      callback(null, response);
    } catch (thrown) {
      error = call.errorOf(thrown);
      callback(statusOf(error));
    }
    call.finish(error);
  };
}

/** A long response is encoded in pieces, and other calls run between them. */
async function encoded(
  rpc: UnaryRpc,
  response: object | ResponseParts<object>,
  signal: AbortSignal,
): Promise<Buffer> {
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

export function statusOf(error: CsiError): CallStatus {
  // With OK or an unknown code the client would take the failed call for a success.
  const code = error.code > StatusCode.OK && error.code <= 16 ? error.code : StatusCode.INTERNAL;
  const message = error.message.trim() === '' ? 'the call failed without a message' : error.message;
  return { code, details: shorten(message) };
}

/**
 * Shortens a message to the limit. Replaces lone surrogates, which may come from names in a request:
 * gRPC's encoder would throw on them, outside of any handler.
 */
function shorten(message: string): string {
  // One character more than the limit is enough to find that the message is too long.
  const wellFormed = Buffer.from(message.slice(0, MAX_ENCODED_MESSAGE + 1)).toString();
  if (encodeURI(wellFormed).length <= MAX_ENCODED_MESSAGE) return wellFormed;
  let length = 0;
  let prefix = '';
  for (const character of wellFormed) {
    length += encodeURI(character).length;
    if (length > MAX_ENCODED_MESSAGE - '...'.length) break;
    prefix += character;
  }
  return `${prefix}...`;
}
