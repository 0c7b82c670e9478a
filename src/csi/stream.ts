/**
 * The one owner of write, end and emit('error') on a streaming call.
 *
 * Services hand over chunks of ready messages; this file sends them no faster than the client reads
 * and never ends a stream with OK unless its handler came to its end undisturbed. It does not look
 * into messages.
 */
import type { ServerWritableStream } from '@grpc/grpc-js';
import { CsiError } from '../base/errors.js';
import type { Call, CallRegistry, Rpc } from './calls.js';
import { statusOf } from './handler.js';
import { originOf } from './incoming-calls.js';
import type { DecodedRequest } from './request-decoder.js';
import type { AnyStreamHandler, MessageWriter } from './service.js';
import type { OpenStream, StreamPlaces } from './stream-places.js';

export type StreamCall = ServerWritableStream<DecodedRequest, Buffer>;

/** Before every message in a chunk: a zero byte and the message's length, big-endian. */
const PREFIX_BYTES = 5;
/** Messages handed to gRPC and not yet sent: enough to keep it busy, bounded when messages are tiny. */
const MAX_IN_FLIGHT = 64;

export interface StreamLimits {
  places: StreamPlaces;
  /** How long a client may take nothing before its stream is ended. */
  stallMs: number;
}

/**
 * @param find gives the handler, which may take until the plugin has started, or rejects with what
 *   to answer instead; the signal is the call's
 * @returns a handler for a method whose responses are sent as they are
 */
export function createStreamHandler(
  rpc: Rpc,
  calls: CallRegistry,
  limits: StreamLimits,
  find: (signal: AbortSignal) => Promise<AnyStreamHandler>,
): (grpcCall: StreamCall) => Promise<void> {
  return async (grpcCall) => {
    const call = calls.open(rpc, grpcCall);
    const writer = new CallWriter(grpcCall, call, limits.stallMs);
    let error: CsiError | null = null;
    try {
      calls.admit(rpc);
      limits.places.enter(writer);
      const handler = await find(call.signal);
      await handler(call.request as never, call, writer);
      // A handler that gave way without a word has not sent everything.
      call.signal.throwIfAborted();
    } catch (thrown) {
      error = call.errorOf(thrown);
    }
    limits.places.leave(writer);
    writer.close();
    call.note({ ...writer.sums, waitMs: Math.round(writer.sums.waitMs) });
    if (error === null) grpcCall.end();
    else if (!grpcCall.cancelled) sendError(grpcCall, error, writer.stalledSince !== null);
    call.finish(error);
  };
}

/**
 * What waits for a client that may never read again is dropped, and with it the memory it is in.
 * Otherwise the error comes behind what was sent: not by `end` with a status, nor by `destroy`, but by
 * the event that makes grpc-js send code and message.
 */
function sendError(grpcCall: StreamCall, error: CsiError, isStalled: boolean): void {
  const origin = originOf(grpcCall.metadata);
  if (!isStalled || origin === undefined) {
    grpcCall.emit('error', statusOf(error));
    return;
  }
  grpcCall.destroy();
  origin.abandon(statusOf(error));
}

class CallWriter implements MessageWriter, OpenStream {
  /** Of what was sent; waits are pauses until gRPC, and so the client, had taken messages. */
  readonly sums = { messages: 0, wireBytes: 0, waits: 0, waitMs: 0 };
  readonly #grpcCall: StreamCall;
  readonly #call: Call;
  readonly #stallMs: number;
  #stallTimer: NodeJS.Timeout;
  /** When the client last took a message that was waited for. */
  #progressAt = 0;
  /** Why nothing can be sent any more. */
  #failure: unknown = null;
  #inFlight = 0;
  #sending = false;
  #waiter: { level: number; resolve: () => void; reject: (reason: unknown) => void } | null = null;

  constructor(grpcCall: StreamCall, call: Call, stallMs: number) {
    this.#grpcCall = grpcCall;
    this.#call = call;
    this.#stallMs = stallMs;
    // One listener and one timer for the whole call: one for each wait costs more than the messages.
    if (call.signal.aborted) this.#aborted();
    else call.signal.addEventListener('abort', this.#aborted);
    this.#stallTimer = setTimeout(this.#checkStall, stallMs).unref();
  }

  get peer(): object {
    return this.#call.peer;
  }

  get stalledSince(): number | null {
    return this.#inFlight > 0 ? this.#progressAt : null;
  }

  end(reason: CsiError): void {
    this.#call.abort(reason);
  }

  async send(chunk: Uint8Array): Promise<void> {
    if (this.#sending) throw new Error('send was called before the last one had ended');
    const messages = splitMessages(chunk);
    this.#sending = true;
    try {
      for (const message of messages) {
        if (this.#inFlight >= MAX_IN_FLIGHT) await this.#wait(MAX_IN_FLIGHT / 2);
        this.#write(message);
      }
      // gRPC copies a message when its turn comes, so the chunk is ours again only after the last.
      if (this.#inFlight > 0) await this.#wait(0);
    } finally {
      this.#sending = false;
    }
  }

  /** Refuses all further sends. */
  close(): void {
    clearTimeout(this.#stallTimer);
    this.#call.signal.removeEventListener('abort', this.#aborted);
    this.#fail(new Error('the call has ended: nothing can be sent'));
  }

  #write(message: Buffer): void {
    if (this.#failure !== null) throw this.#failure;
    if (this.#inFlight === 0) this.#progressAt = performance.now();
    this.#inFlight += 1;
    this.sums.messages += 1;
    this.sums.wireBytes += message.byteLength;
    this.#grpcCall.write(message, this.#written);
  }

  /** Until so few messages are in flight, or nothing can be sent any more. */
  async #wait(level: number): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    const started = performance.now();
    await new Promise<void>((resolve, reject) => {
      this.#waiter = { level, resolve, reject };
    });
    this.sums.waits += 1;
    this.sums.waitMs += performance.now() - started;
  }

  /** Never called for messages that were under way when the client cancelled. */
  readonly #written = (error?: Error | null): void => {
    this.#inFlight -= 1;
    this.#progressAt = performance.now();
    if (error) {
      this.#fail(CsiError.cancelled('the stream to the caller is broken', { cause: error }));
    } else if (this.#waiter !== null && this.#inFlight <= this.#waiter.level) {
      const { resolve } = this.#waiter;
      this.#waiter = null;
      resolve();
    }
  };

  readonly #aborted = (): void => this.#fail(this.#call.signal.reason);

  readonly #checkStall = (): void => {
    const since = this.stalledSince ?? performance.now();
    const leftMs = since + this.#stallMs - performance.now();
    if (leftMs > 0) {
      this.#stallTimer = setTimeout(this.#checkStall, leftMs).unref();
      return;
    }
    this.end(
      CsiError.aborted(
        `the caller has read nothing for ${Math.round(this.#stallMs / 1000)} s; ` +
          'call again with starting_offset behind the last range received',
      ),
    );
  };

  #fail(reason: unknown): void {
    this.#failure ??= reason;
    const waiter = this.#waiter;
    this.#waiter = null;
    waiter?.reject(this.#failure);
  }
}

/** Views of the messages in a chunk. Throws before anything is sent if they do not fill it exactly. */
function splitMessages(chunk: Uint8Array): Buffer[] {
  const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  const messages: Buffer[] = [];
  let offset = 0;
  while (offset < bytes.length) {
    if (bytes.length - offset < PREFIX_BYTES || bytes[offset] !== 0) throw brokenChunk(offset);
    const start = offset + PREFIX_BYTES;
    const end = start + bytes.readUInt32BE(offset + 1);
    if (end > bytes.length) throw brokenChunk(offset);
    messages.push(bytes.subarray(start, end));
    offset = end;
  }
  return messages;
}

function brokenChunk(offset: number): CsiError {
  return CsiError.internal('the list of ranges could not be encoded', {
    details: { offset, reason: 'no message starts here, or it is longer than its chunk' },
  });
}
