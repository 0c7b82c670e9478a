/**
 * Turns the handlers of a service into what gRPC calls: errors become statuses, responses bytes.
 *
 * A status has a code and a message and nothing else (CSI forbids details). Whatever an engineer
 * needs beyond the message is in the log line of the call.
 */
import { setImmediate } from 'node:timers/promises';
import type { handleUnaryCall } from '@grpc/grpc-js';
import { type CsiError, StatusCode } from '../base/errors.js';
import type { CallRegistry, Rpc } from './calls.js';
import type { DecodedRequest } from './request-decoder.js';
import { type AnyUnaryHandler, ResponseParts } from './service.js';

/** What goes to the client of a failed call. */
export interface CallStatus {
  code: StatusCode;
  details: string;
}

export interface UnaryRpc extends Rpc {
  /** Throws if the response does not fit its message type. */
  encode(response: object): Buffer;
}

/**
 * Messages travel percent-encoded in a header, and clients bound what they take in headers (8 KiB in
 * C++ gRPC), so that is what is limited.
 */
const MAX_ENCODED_MESSAGE = 4096;

/**
 * @param find gives the handler, which may take until the plugin has started, or rejects with what
 *   to answer instead; the signal is the call's
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
      const response = await handler(call.request as never, call);
      callback(null, await encoded(rpc, response, call.signal));
    } catch (thrown) {
      error = call.errorOf(thrown);
      callback(statusOf(error));
    }
    call.finish(error);
  };
}

/** A long one is encoded in pieces, with all other calls between them. */
async function encoded(
  rpc: UnaryRpc,
  response: object | ResponseParts<object>,
  signal: AbortSignal,
): Promise<Buffer> {
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
  // A code that is no failure, or none at all, would make the client believe in success.
  const code = error.code > StatusCode.OK && error.code <= 16 ? error.code : StatusCode.INTERNAL;
  const message = error.message.trim() === '' ? 'the call failed without a message' : error.message;
  return { code, details: shorten(message) };
}

/**
 * Cuts a message to what fits. Lone surrogates, which names in a request may bring along, are
 * replaced: gRPC's encoder would throw on them, outside of any handler.
 */
function shorten(message: string): string {
  // One character too many is enough to see that it is too long.
  const wellFormed = Buffer.from(message.slice(0, MAX_ENCODED_MESSAGE + 1)).toString();
  if (encodeURI(wellFormed).length <= MAX_ENCODED_MESSAGE) return wellFormed;
  let length = 0;
  let kept = '';
  for (const character of wellFormed) {
    length += encodeURI(character).length;
    if (length > MAX_ENCODED_MESSAGE - '...'.length) break;
    kept += character;
  }
  return `${kept}...`;
}
