/**
 * Writes the messages of one streaming call, no faster than its client reads. Services pass chunks of encoded messages,
 * which this file does not decode.
 *
 * If frame-proof.ts has proved that frames work, a chunk is written to the call's HTTP/2 stream unchanged: many messages at
 * once, without a copy. Otherwise gRPC copies and writes each message.
 */
import { Metadata, type ServerWritableStream } from '@grpc/grpc-js';
import { PREFIX_BYTES } from '../../base/csi/grpc-wire.js';
import type { EncodedMessage, RelayWriter } from '../../base/csi/service.js';
import { CsiError } from '../../base/errors.js';
import { type CallStream, isWritable } from './call-stream.js';
import type { Call } from './calls.js';
import { originOf } from './incoming-calls.js';
import type { DecodedRequest } from './request-decoder.js';
import type { OpenStream, StreamPlaces } from './stream-places.js';

export type StreamCall = ServerWritableStream<DecodedRequest, Buffer>;

/** Limit of messages that gRPC has but has not sent: enough to keep gRPC busy, and a bound for tiny messages. */
const MAX_IN_FLIGHT = 64;
/** Messages are written together up to this size. Each write that a client has taken counts as progress. */
const SLICE_BYTES = 128 << 10;
/** Limit of slices that are written but not sent: one slice is being sent, and another one follows. */
const MAX_SLICES_IN_FLIGHT = 2;
/** No more is forwarded while more bytes than this are not sent yet. */
const MAX_FORWARDED_BYTES = 128 << 10;

export interface StreamLimits {
  places: StreamPlaces;
  /** How long a client may read nothing before its stream is ended. */
  stallMs: number;
  /** Whether frames may be written to the HTTP/2 stream of a call. */
  writesFrames: boolean;
}

export class StreamWriter implements RelayWriter, OpenStream {
  /** Totals of the sent messages. A wait is a pause until gRPC, and thus the client, has taken messages. */
  readonly sums = { messages: 0, wireBytes: 0, waits: 0, waitMs: 0 };
  readonly #stallMs: number;
  /** The stream that takes frames unchanged; null if messages go through gRPC. */
  readonly #stream: CallStream | null;
  #stallTimer: NodeJS.Timeout;
  /** When the client last took a message (performance.now()). */
  #progressAt = 0;
  /** Why nothing can be sent any more. */
  #failure: unknown = null;
  #inFlight = 0;
  /** The lengths of the writes in flight, the oldest first. #bytesInFlight is their sum. */
  readonly #lengths: number[] = [];
  #bytesInFlight = 0;
  #sending = false;
  #waiter: { level: number; resolve: () => void; reject: (reason: unknown) => void } | null = null;

  constructor(
    private readonly grpcCall: StreamCall,
    private readonly call: Call,
    { stallMs, writesFrames }: StreamLimits,
  ) {
    this.#stallMs = stallMs;
    this.#stream = writesFrames ? (originOf(grpcCall.metadata)?.stream ?? null) : null;
    // The whole call has one listener and one timer. A pair for each wait would cost more than the messages.
    if (call.signal.aborted) this.#aborted();
    else call.signal.addEventListener('abort', this.#aborted);
    this.#stallTimer = setTimeout(this.#checkStall, stallMs).unref();
  }

  get peer(): object {
    return this.call.peer;
  }

  get stalledSince(): number | null {
    return this.#inFlight > 0 ? this.#progressAt : null;
  }

  end(reason: CsiError): void {
    this.call.abort(reason);
  }

  async send(chunk: Uint8Array): Promise<void> {
    if (this.#sending) throw new Error('send was called before the previous call had ended');
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const stream = this.#stream;
    const slices = cutChunk(bytes, stream === null ? 0 : SLICE_BYTES);
    this.#sending = true;
    try {
      for (const slice of slices) {
        if (stream !== null) {
          if (this.#inFlight >= MAX_SLICES_IN_FLIGHT) await this.#wait(MAX_SLICES_IN_FLIGHT - 1);
          await this.#writeFrames(stream, slice.bytes.byteLength, slice.messages, [slice.bytes]);
        } else {
          if (this.#inFlight >= MAX_IN_FLIGHT) await this.#wait(MAX_IN_FLIGHT / 2);
          this.#write(slice.bytes.subarray(PREFIX_BYTES));
        }
      }
      // HTTP/2 sends from this memory, and gRPC copies a message only when it sends the message. So the chunk may be reused
      // only after the last message.
      if (this.#inFlight > 0) await this.#wait(0);
    } finally {
      this.#sending = false;
    }
  }

  async forward(messages: readonly EncodedMessage[]): Promise<void> {
    if (this.#stream !== null) {
      const pieces = messages.flatMap(({ framePieces }) => framePieces);
      const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
      await this.#writeFrames(this.#stream, bytes, messages.length, pieces);
      await this.#untilTaken();
      return;
    }
    for (const message of messages) {
      // The serializer of streams returns its argument, and gRPC uses no other members of a Buffer than an EncodedMessage has.
      this.#write(message as unknown as Buffer);
      await this.#untilTaken();
    }
  }

  /** Refuses all further sends. */
  close(): void {
    clearTimeout(this.#stallTimer);
    this.call.signal.removeEventListener('abort', this.#aborted);
    this.#fail(new Error('the call has ended: nothing can be sent'));
  }

  /** Resolves when the client has taken enough of what was forwarded. */
  async #untilTaken(): Promise<void> {
    while (this.#bytesInFlight > MAX_FORWARDED_BYTES || this.#inFlight >= MAX_IN_FLIGHT) {
      await this.#wait(this.#inFlight - 1);
    }
  }

  #write(message: Buffer): void {
    this.#begin(message.byteLength, 1, message.byteLength);
    this.grpcCall.write(message, this.#written);
  }

  /** @param bytes the total length of all pieces, prefixes included */
  async #writeFrames(stream: CallStream, bytes: number, messages: number, pieces: readonly Buffer[]): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    if (!stream.headersSent) this.grpcCall.sendMetadata(new Metadata());
    this.#begin(bytes, messages, bytes - messages * PREFIX_BYTES);
    if (!isWritable(stream)) {
      // gRPC has ended the stream, because the deadline has passed or the client is gone. The signal tells which at once.
      await this.#wait(this.#inFlight - 1);
      return;
    }
    // HTTP/2 would send the first piece alone, in a frame of its own.
    stream.cork();
    for (const piece of pieces.slice(0, -1)) stream.write(piece);
    stream.write(pieces.at(-1), this.#written);
    stream.uncork();
  }

  /** Counts a write that the caller makes right afterwards. */
  #begin(bytes: number, messages: number, wireBytes: number): void {
    if (this.#failure !== null) throw this.#failure;
    if (this.#inFlight === 0) this.#progressAt = performance.now();
    this.#inFlight += 1;
    this.#lengths.push(bytes);
    this.#bytesInFlight += bytes;
    if (this.sums.messages === 0) {
      this.call.observer.firstMessageSent(this.call.rpc, this.call.seconds);
    }
    this.sums.messages += messages;
    this.sums.wireBytes += wireBytes;
  }

  /** Resolves when at most `level` writes are in flight; rejects when nothing can be sent any more. */
  async #wait(level: number): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    const started = performance.now();
    await new Promise<void>((resolve, reject) => {
      this.#waiter = { level, resolve, reject };
    });
    this.sums.waits += 1;
    this.sums.waitMs += performance.now() - started;
  }

  /** Runs when a write has been sent, but not for writes that were in flight when the client cancelled. */
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

  readonly #aborted = (): void => this.#fail(this.call.signal.reason);

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

/** Whole messages, with their prefixes. */
interface Slice {
  readonly bytes: Buffer;
  readonly messages: number;
}

/**
 * Cuts a chunk into slices of at most `maxBytes`; a slice with a single message may be larger. Throws before anything is sent
 * if the messages do not fill the chunk exactly.
 */
function cutChunk(bytes: Buffer, maxBytes: number): Slice[] {
  const slices: Slice[] = [];
  let start = 0;
  let messages = 0;
  let offset = 0;
  while (offset < bytes.length) {
    const end = endOfMessage(bytes, offset);
    if (messages > 0 && end - start > maxBytes) {
      slices.push({ bytes: bytes.subarray(start, offset), messages });
      start = offset;
      messages = 0;
    }
    messages += 1;
    offset = end;
  }
  if (messages > 0) slices.push({ bytes: bytes.subarray(start), messages });
  return slices;
}

function endOfMessage(bytes: Buffer, offset: number): number {
  if (bytes.length - offset < PREFIX_BYTES || bytes[offset] !== 0) throw brokenChunk(offset);
  const end = offset + PREFIX_BYTES + bytes.readUInt32BE(offset + 1);
  if (end > bytes.length) throw brokenChunk(offset);
  return end;
}

function brokenChunk(offset: number): CsiError {
  return CsiError.internal('the list of ranges could not be encoded', {
    details: { offset, reason: 'no message starts at the offset, or it exceeds the chunk' },
  });
}
