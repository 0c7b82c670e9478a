/**
 * gRPC over HTTP/2 as bytes: the prefix of messages, the headers of a request, the status in trailers. Does no I/O. Knows no
 * connection and no RPC.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2';
import { CsiError, type StatusCode } from '../errors.js';
import type { EncodedMessage } from './service.js';

/** The prefix of every message: a zero byte, and the message's length in big-endian order. */
export const PREFIX_BYTES = 5;
/** gRPC's limit: eight digits. */
const MAX_TIMEOUT_DIGITS = 99_999_999;

/** A message with its prefix, as one request. */
export function framed(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  message.copy(frame, PREFIX_BYTES);
  return frame;
}

/** @param deadline in milliseconds since the epoch; Infinity if there is none */
export function requestHeaders(path: string, deadline: number, extra: OutgoingHttpHeaders = {}): OutgoingHttpHeaders {
  return {
    ':method': 'POST',
    ':path': path,
    te: 'trailers',
    'content-type': 'application/grpc',
    ...(Number.isFinite(deadline) ? { 'grpc-timeout': timeoutOf(deadline - Date.now()) } : {}),
    ...extra,
  };
}

function timeoutOf(ms: number): string {
  const whole = Math.max(1, Math.ceil(ms));
  if (whole <= MAX_TIMEOUT_DIGITS) return `${whole}m`;
  return `${Math.min(Math.ceil(whole / 1000), MAX_TIMEOUT_DIGITS)}S`;
}

/** The error that trailers report; null for OK; undefined if they report no status. */
export function statusIn(headers: IncomingHttpHeaders): CsiError | null | undefined {
  const code = headers['grpc-status'];
  if (typeof code !== 'string' || !/^\d{1,2}$/.test(code)) return undefined;
  if (code === '0') return null;
  return new CsiError(Number(code) as StatusCode, decoded(headers['grpc-message']));
}

/** Decodes percent-encoded UTF-8. A message that is not valid stays as it is. */
function decoded(message: string | string[] | undefined): string {
  const text = String(message ?? '');
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A message in the pieces in which it arrived. The prefix comes first and may span several pieces. */
export class SplitMessage implements EncodedMessage {
  readonly byteLength: number;
  readonly framePieces: readonly Buffer[];

  constructor(pieces: readonly Buffer[], bytesWithPrefix: number) {
    this.framePieces = pieces;
    this.byteLength = bytesWithPrefix - PREFIX_BYTES;
  }

  copy(target: Buffer, start: number): void {
    let skipped = PREFIX_BYTES;
    let at = start;
    for (const piece of this.framePieces) {
      const from = Math.min(skipped, piece.length);
      skipped -= from;
      at += piece.copy(target, at, from);
    }
  }

  toBuffer(): Buffer {
    const whole = Buffer.allocUnsafe(this.byteLength);
    this.copy(whole, 0);
    return whole;
  }
}

/** Cuts the bytes of a response, which arrive in pieces of any size, into messages. */
export class MessageSplitter {
  #pieces: Buffer[] = [];
  #buffered = 0;
  /** Bytes of the message that has begun, with its prefix; 0 while the prefix is incomplete. */
  #wanted = 0;

  /** @param maxBytes the limit of a single message */
  constructor(private readonly maxBytes: number) {}

  /** Whether a message has begun and not ended. */
  get isInside(): boolean {
    return this.#buffered > 0;
  }

  /**
   * Takes a piece and returns the messages that are complete now. They are views of the pieces.
   *
   * @throws CsiError INTERNAL if a message is compressed or too long
   */
  push(piece: Buffer): SplitMessage[] {
    const messages: SplitMessage[] = [];
    let rest = piece;
    while (rest.length > 0) {
      if (this.#wanted === 0) {
        // The prefix itself may come in two pieces.
        const missing = PREFIX_BYTES - this.#buffered;
        this.#keep(rest.subarray(0, missing));
        rest = rest.subarray(missing);
        if (this.#buffered < PREFIX_BYTES) break;
        this.#wanted = this.#readLength();
      }
      const missing = this.#wanted - this.#buffered;
      if (rest.length < missing) {
        this.#keep(rest);
        break;
      }
      if (missing > 0) this.#keep(rest.subarray(0, missing));
      rest = rest.subarray(missing);
      if (this.#buffered === this.#wanted) messages.push(this.#take());
    }
    return messages;
  }

  #keep(piece: Buffer): void {
    if (piece.length === 0) return;
    this.#pieces.push(piece);
    this.#buffered += piece.length;
  }

  #readLength(): number {
    const prefix = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
    const length = prefix?.readUInt32BE(1) ?? 0;
    if (prefix?.[0] !== 0 || length > this.maxBytes) {
      throw CsiError.internal(`a message of ${length} bytes arrived that is compressed or over ${this.maxBytes} bytes`);
    }
    return PREFIX_BYTES + length;
  }

  #take(): SplitMessage {
    const message = new SplitMessage(this.#pieces, this.#buffered);
    this.#pieces = [];
    this.#buffered = 0;
    this.#wanted = 0;
    return message;
  }
}
