/**
 * The HTTP/2 stream below a gRPC call. It takes complete frames without a copy, and closing it ends a call whose status cannot
 * be delivered.
 *
 * gRPC has no interface for either use, so this file reads one field of grpc-js's own call object. This field is not trusted:
 * every message goes through gRPC unless frame-proof.ts has seen frames arrive unchanged. Knows neither services nor the
 * content of messages.
 */
import { constants, type ServerHttp2Stream } from 'node:http2';
import { Duplex } from 'node:stream';

/** What the plugin uses of a call's HTTP/2 stream. */
export type CallStream = Pick<
  ServerHttp2Stream,
  'write' | 'cork' | 'uncork' | 'close' | 'closed' | 'destroyed' | 'headersSent' | 'writableEnded'
>;

/** @param call the call of an interceptor. Returns null if the call is not the innermost one or has an unknown form. */
export function callStreamOf(call: object): CallStream | null {
  const stream: unknown = 'stream' in call ? call.stream : null;
  if (!(stream instanceof Duplex)) return null;
  const found = stream as Duplex & Partial<ServerHttp2Stream>;
  const isKnown = typeof found.close === 'function' && typeof found.headersSent === 'boolean';
  return isKnown ? (found as ServerHttp2Stream) : null;
}

/** Whether bytes can be written to the stream: its headers are sent, and its end is not. */
export function isWritable(stream: CallStream): boolean {
  return stream.headersSent && !stream.writableEnded && !stream.destroyed && !stream.closed;
}

/** Resets the stream unless it has ended within this time. Data that was written but not read is dropped. */
export function closeLater(stream: CallStream, ms: number): void {
  setTimeout(() => {
    if (!stream.closed && !stream.destroyed) stream.close(constants.NGHTTP2_CANCEL);
  }, ms).unref();
}
