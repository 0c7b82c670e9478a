/**
 * Decodes the bytes of a request to its message, or to the reason why the bytes are not valid.
 *
 * Decoding never throws, because gRPC would then end the call itself with INTERNAL and without a log line. This file refuses
 * two faults that the protobuf library accepts: text that is not UTF-8, which the library would convert to other text, and a
 * string that extends beyond the end of the request.
 */
import { isUtf8 } from 'node:buffer';
import protobuf from 'protobufjs';
import { CONVERSION } from '../../base/csi/proto.js';
import { CsiError, messageOf } from '../../base/errors.js';

/** A message of any type. RequestOf in base/csi/service.ts is the message of one RPC. */
export type DecodedMessage = Readonly<Record<string, unknown>>;

/** The decoded message; or an empty message, and an INVALID_ARGUMENT error with the reason. */
export interface DecodedRequest {
  readonly message: DecodedMessage;
  readonly refusal: CsiError | null;
  /** The bytes of the request as received. */
  readonly encoded: Buffer;
}

export function requestDecoder(type: protobuf.Type): (bytes: Buffer) => DecodedRequest {
  return (bytes) => {
    try {
      const message = type.toObject(type.decode(new StrictReader(bytes)), CONVERSION);
      return { message, refusal: null, encoded: bytes };
    } catch (thrown) {
      const message = `the request is not a valid ${type.name}: ${messageOf(thrown)}`;
      const refusal = CsiError.invalidArgument(message, { cause: thrown });
      return { message: {}, refusal, encoded: bytes };
    }
  };
}

class StrictReader extends protobuf.BufferReader {
  override string(): string {
    const length = this.uint32();
    const end = this.pos + length;
    if (end > this.len) throw new Error(`a string of ${length} bytes exceeds the request`);
    const text = Buffer.from(this.buf.buffer, this.buf.byteOffset + this.pos, length);
    if (!isUtf8(text)) throw new Error('a string is not valid UTF-8');
    this.pos = end;
    return text.toString('utf8');
  }
}
