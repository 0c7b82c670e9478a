/**
 * The only file that calls write, end and emit('error') on a streaming call.
 *
 * Services pass chunks of encoded messages. This file sends them no faster than the client reads, and
 * ends a stream with OK only if its handler completed and the call was not aborted. It does not decode
 * messages.
 */
import type { ServerWritableStream } from '@grpc/grpc-js';
import { CsiError, StatusCode } from '../base/errors.js';
import { inCallSpan } from './call-span.js';
import type { Call, CallRegistry, Rpc } from './calls.js';
import { statusOf } from './handler.js';
import { originOf } from './incoming-calls.js';
import type { DecodedRequest } from './request-decoder.js';
import type { AnyStreamHandler, EncodedMessage, RelayWriter } from './service.js';
import type { OpenStream, StreamPlaces } from './stream-places.js';

export type StreamCall = ServerWritableStream<DecodedRequest, Buffer>;

/** The prefix of every message in a chunk: a zero byte, and the message's length in big-endian order. */
const PREFIX_BYTES = 5;
/** Messages passed to gRPC and not sent yet: enough to keep it busy, and a bound for tiny messages. */
const MAX_IN_FLIGHT = 64;
/** Forwarded bytes that are not sent yet; a single message may be larger. */
const MAX_FORWARDED_BYTES = 512 << 10;

export interface StreamLimits {
  places: StreamPlaces;
  /** How long a client may read nothing before its stream is ended. */
  stallMs: number;
}

/**
 * @param find resolves to the handler, possibly only when the plugin has started, or rejects with the
 *   error to return; the signal is the call's
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
    call.observer.streamStarted(rpc, writer.sums);
    let error: CsiError | null = null;
    try {
      calls.admit(rpc);
      limits.places.enter(writer);
      const handler = await find(call.signal);
      await inCallSpan(rpc, grpcCall.metadata, async () => {
        await handler(call.request as never, call, writer);
        // A handler that returned because of the abort has not sent everything.
        call.signal.throwIfAborted();
      });
    } catch (thrown) {
      error = call.errorOf(thrown);
    }
    limits.places.leave(writer);
    writer.close();
    call.observer.streamEnded(rpc, writer.sums, error !== null && isGone(error));
    call.note({ ...writer.sums, waitMs: Math.round(writer.sums.waitMs) });
    if (error === null) grpcCall.end();
    else if (!grpcCall.cancelled) sendError(grpcCall, error, writer.stalledSince !== null);
    call.finish(error);
  };
}

/** Whether the client has ended the call. */
function isGone({ code }: CsiError): boolean {
  return code === StatusCode.CANCELLED || code === StatusCode.DEADLINE_EXCEEDED;
}

/**
 * If the client does not read, messages that wait for it are dropped together with their memory.
 * Otherwise the error follows what was sent. Neither `end` with a status nor `destroy` does that; the
 * 'error' event makes grpc-js send code and message.
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

class CallWriter implements RelayWriter, OpenStream {
  /** Totals of what was sent; a wait is a pause until gRPC, and thus the client, has taken messages. */
  readonly sums = { messages: 0, wireBytes: 0, waits: 0, waitMs: 0 };
  readonly #grpcCall: StreamCall;
  readonly #call: Call;
  readonly #stallMs: number;
  #stallTimer: NodeJS.Timeout;
  /** When the client last took a message (performance.now()). */
  #progressAt = 0;
  /** Why nothing can be sent any more. */
  #failure: unknown = null;
  #inFlight = 0;
  /** The lengths of these messages, the oldest first, and their sum. */
  readonly #lengths: number[] = [];
  #bytesInFlight = 0;
  #sending = false;
  #waiter: { level: number; resolve: () => void; reject: (reason: unknown) => void } | null = null;

  constructor(grpcCall: StreamCall, call: Call, stallMs: number) {
    this.#grpcCall = grpcCall;
    this.#call = call;
    this.#stallMs = stallMs;
    // One listener and one timer for the whole call: one for each wait would cost more than the messages.
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
    if (this.#sending) throw new Error('send was called before the previous call had ended');
    const messages = splitMessages(chunk);
    this.#sending = true;
    try {
      for (const message of messages) {
        if (this.#inFlight >= MAX_IN_FLIGHT) await this.#wait(MAX_IN_FLIGHT / 2);
        this.#write(message);
      }
      // gRPC copies a message when it sends it, so the chunk may be reused only after the last one.
      if (this.#inFlight > 0) await this.#wait(0);
    } finally {
      this.#sending = false;
    }
  }

  async forward(message: EncodedMessage): Promise<void> {
    // The serializer of streams returns what it is given, and gRPC uses no more of a Buffer than this.
    this.#write(message as Buffer);
    while (this.#bytesInFlight > MAX_FORWARDED_BYTES || this.#inFlight >= MAX_IN_FLIGHT) {
      await this.#wait(this.#inFlight - 1);
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
    this.#lengths.push(message.byteLength);
    this.#bytesInFlight += message.byteLength;
    if (this.sums.messages === 0) {
      this.#call.observer.firstMessageSent(this.#call.rpc, this.#call.seconds);
    }
    this.sums.messages += 1;
    this.sums.wireBytes += message.byteLength;
    this.#grpcCall.write(message, this.#written);
  }

  /** Resolves when at most `level` messages are in flight; rejects when nothing can be sent any more. */
  async #wait(level: number): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    const started = performance.now();
    await new Promise<void>((resolve, reject) => {
      this.#waiter = { level, resolve, reject };
    });
    this.sums.waits += 1;
    this.sums.waitMs += performance.now() - started;
  }

  /** Not called for messages that were in flight when the client cancelled. */
  readonly #written = (error?: Error | null): void => {
    this.#inFlight -= 1;
    this.#bytesInFlight -= this.#lengths.shift() ?? 0;
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
          'call again with starting_offset after the last range received',
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

/** Views of the messages in a chunk. Throws, before anything is sent, if they do not fill it exactly. */
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
    details: { offset, reason: 'no message starts at the offset, or it exceeds the chunk' },
  });
}
