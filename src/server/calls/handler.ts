/**
 * Turns the handlers of a service into what gRPC calls: errors become statuses, responses bytes.
 *
 * A status has a code and a message and nothing else, because CSI forbids details. The log line of the
 * call has the cause and the details of an error.
 */
import { setImmediate } from 'node:timers/promises';
import type { handleUnaryCall } from '@grpc/grpc-js';
import { type AnyUnaryHandler, EncodedResponse, ResponseParts } from '../../base/csi/service.js';
import type { CsiError } from '../../base/errors.js';
import { inCallSpan } from './call-span.js';
import { statusOf } from './call-status.js';
import type { CallRegistry, Rpc } from './calls.js';
import type { DecodedRequest } from './request-decoder.js';

export interface UnaryRpc extends Rpc {
  /** Throws if the response does not fit its message type. */
  encode(response: object): Buffer;
}

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
    let response: Buffer | null = null;
    let error: CsiError | null = null;
    try {
      calls.admit(rpc);
      const handler = await find(call.signal);
      response = await inCallSpan(rpc, grpcCall.metadata, async () =>
        encoded(rpc, await handler(call.request as never, call), call.signal),
      );
    } catch (thrown) {
      error = call.errorOf(thrown);
    }
    try {
      callback(error === null ? null : statusOf(error), response);
    } catch (thrown) {
      // Not answered a second time.
      error ??= call.errorOf(thrown);
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
