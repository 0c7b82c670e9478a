/**
 * One stream of GetMetadataAllocated or GetMetadataDelta, read from bare HTTP/2.
 *
 * gRPC libraries hide what the checks need to see: they end a call at its deadline without waiting for
 * the driver's own status, they hide the bounds and sizes of messages, and they read ahead. Here nothing
 * is read before it is requested, so that a small window makes the driver wait. Each stream has its own
 * connection.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { framed, MessageSplitter, requestHeaders, type SplitMessage, statusIn } from '../../base/csi/grpc-wire.js';
import { csiMessage } from '../../base/csi/proto.js';
import { CsiError, StatusCode } from '../../base/errors.js';
import { ConformanceFailure } from './failure.js';
import type { Entry } from './ranges.js';
import type { Refusal } from './refusal.js';

export interface MetadataStreamOptions {
  /** Bytes that the driver may send before anything is read. Default: 1 MiB. */
  windowBytes?: number;
  /** The deadline sent to the driver. Only the driver acts on it. */
  deadlineMs?: number;
}

interface StreamTarget extends MetadataStreamOptions {
  socketPath: string;
  rpc: string;
  path: string;
  request: Buffer;
  signal: AbortSignal;
  onRefusal(refusal: Refusal): void;
}

export interface MetadataMessage {
  /** The name of the type; UNKNOWN if the type is not set. */
  readonly type: string;
  readonly capacityBytes: bigint;
  readonly entries: readonly Entry[];
  /** Size on the wire, without the frame header. */
  readonly wireBytes: number;
}

/** How a stream ended: code OK and an empty message, or a refusal. */
export type StreamEnd = Refusal;

const DEFAULT_WINDOW_BYTES = 1 << 20;

export class MetadataStream {
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #closed: Promise<void>;
  /** Accepts messages of any size, because a check judges their size. */
  readonly #splitter = new MessageSplitter(Number.MAX_SAFE_INTEGER);
  /** Messages that are received and not decoded yet. */
  readonly #messages: SplitMessage[] = [];
  #trailers: IncomingHttpHeaders = {};
  #error: Error | null = null;
  #end: StreamEnd | null = null;

  constructor(private readonly target: StreamTarget) {
    this.#session = connect('http://localhost', {
      createConnection: () => connectSocket(target.socketPath),
      settings: {
        enablePush: false,
        initialWindowSize: target.windowBytes ?? DEFAULT_WINDOW_BYTES,
      },
    });
    this.#session.on('error', (error) => {
      this.#error ??= error;
    });
    const { deadlineMs = Number.POSITIVE_INFINITY } = target;
    this.#stream = this.#session.request(requestHeaders(target.path, Date.now() + deadlineMs));
    this.#stream.on('response', (headers) => this.#takeStatus(headers));
    this.#stream.on('trailers', (headers) => this.#takeStatus(headers));
    this.#stream.on('error', (error) => {
      this.#error ??= error;
    });
    this.#closed = new Promise((resolve) => this.#stream.once('close', () => resolve()));
    this.#chunks = this.#stream[Symbol.asyncIterator]();
    target.signal.addEventListener('abort', this.#abort);
    if (target.signal.aborted) this.cancel();
    this.#stream.end(framed(target.request));
  }

  /** Returns the next message, or null at the end of the stream. `end` then holds the status of the stream. */
  async next(): Promise<MetadataMessage | null> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined) return decode(this.target.rpc, message.toBuffer());
      if (this.#end !== null) return null;
      const chunk = await this.#readChunk();
      if (chunk === null) await this.#finish();
      else this.#split(chunk);
    }
  }

  /** Known once `next` has returned null. */
  get end(): StreamEnd {
    if (this.#end === null) throw new Error('the stream has not ended yet');
    return this.#end;
  }

  /** Resets the stream, as a client that cancels. */
  cancel(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  /** Cancels the stream if it has not ended, and closes the connection. */
  async close(): Promise<void> {
    this.target.signal.removeEventListener('abort', this.#abort);
    if (!this.#stream.closed) this.cancel();
    this.#session.destroy();
    await this.#closed;
  }

  readonly #abort = (): void => {
    this.cancel();
    this.#session.destroy();
  };

  async #readChunk(): Promise<Buffer | null> {
    try {
      const { value, done } = await this.#chunks.next();
      return done === true ? null : value;
    } catch (thrown) {
      this.#error ??= thrown as Error;
      return null;
    }
  }

  #split(chunk: Buffer): void {
    try {
      this.#messages.push(...this.#splitter.push(chunk));
    } catch (thrown) {
      this.cancel();
      this.#endWith(StatusCode.INTERNAL, CsiError.from(thrown).message);
    }
  }

  #takeStatus(headers: IncomingHttpHeaders): void {
    if (headers['grpc-status'] !== undefined) this.#trailers = headers;
  }

  async #finish(): Promise<void> {
    await this.#closed;
    const status = statusIn(this.#trailers);
    if (status === undefined) {
      const isOurs = this.#stream.rstCode === constants.NGHTTP2_CANCEL;
      const why = this.#error?.message ?? `reset with HTTP/2 code ${this.#stream.rstCode}`;
      this.#endWith(
        isOurs ? StatusCode.CANCELLED : StatusCode.UNAVAILABLE,
        `the stream ended without a status: ${why}`,
      );
      return;
    }
    if (status === null && this.#splitter.isInside) {
      this.#endWith(StatusCode.INTERNAL, 'the stream ended OK in the middle of a message');
      return;
    }
    this.#endWith(
      status?.code ?? StatusCode.OK,
      status?.message ?? '',
      this.#trailers['grpc-status-details-bin'] !== undefined,
    );
    if (this.end.code !== StatusCode.OK) this.target.onRefusal(this.end);
  }

  #endWith(code: number, message: string, hasDetails = false): void {
    this.#end = { rpc: this.target.rpc, code, message, hasDetails };
  }
}

interface PlainMessage {
  block_metadata_type: string;
  volume_capacity_bytes: string;
  block_metadata: { byte_offset: string; size_bytes: string }[];
}

function decode(rpc: string, bytes: Buffer): MetadataMessage {
  const plain = plainOf(rpc, bytes);
  return {
    type: String(plain.block_metadata_type),
    capacityBytes: BigInt(plain.volume_capacity_bytes),
    entries: plain.block_metadata.map((block) => ({
      offset: BigInt(block.byte_offset),
      size: BigInt(block.size_bytes),
    })),
    wireBytes: bytes.length,
  };
}

function plainOf(rpc: string, bytes: Buffer): PlainMessage {
  const type = csiMessage(`${rpc}Response`);
  try {
    return type.toObject(type.decode(bytes), {
      longs: String,
      enums: String,
      defaults: true,
      arrays: true,
    }) as PlainMessage;
  } catch (thrown) {
    const found = `${bytes.length} bytes that do not decode (${(thrown as Error).message})`;
    throw new ConformanceFailure(rpc, `messages of ${rpc}Response`, found);
  }
}
