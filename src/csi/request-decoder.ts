/**
 * From the bytes of a request to its message, or to the reason why they are none.
 *
 * Decoding never throws: gRPC would answer such a call by itself, with INTERNAL and without a line in
 * the log. Two things that the protobuf library lets pass are refused here: text that is not UTF-8,
 * which it would turn into other text, and a string that is cut off by the end of the request.
 */
import { isUtf8 } from 'node:buffer';
import protobuf from 'protobufjs';
import { CsiError } from '../base/errors.js';
import { CONVERSION, CSI_PACKAGE, csiProto } from './proto.js';

/** A message of whatever type; RequestOf<...> of csi/service.ts is what is known of one type. */
export type DecodedMessage = Readonly<Record<string, unknown>>;

/** What reached us: a message, or an empty one and why the bytes were refused (INVALID_ARGUMENT). */
export interface DecodedRequest {
  readonly message: DecodedMessage;
  readonly refusal: CsiError | null;
  /** Length of what was decoded. */
  readonly bytes: number;
}

/** @param typeName relative to csi.v1, such as `CreateVolumeRequest` */
export function requestDecoder(typeName: string): (bytes: Buffer) => DecodedRequest {
  const type = csiProto().root.lookupType(`${CSI_PACKAGE}.${typeName}`);
  return (bytes) => {
    try {
      const message = type.toObject(type.decode(new StrictReader(bytes)), CONVERSION);
      return { message, refusal: null, bytes: bytes.length };
    } catch (thrown) {
      return { message: {}, refusal: refusalOf(typeName, thrown), bytes: bytes.length };
    }
  };
}

function refusalOf(typeName: string, thrown: unknown): CsiError {
  const reason = thrown instanceof Error ? thrown.message : String(thrown);
  return CsiError.invalidArgument(`the request is no valid ${typeName}: ${reason}`, {
    cause: thrown,
  });
}

class StrictReader extends protobuf.BufferReader {
  override string(): string {
    const length = this.uint32();
    const end = this.pos + length;
    if (end > this.len) throw new Error(`a string of ${length} bytes is cut off`);
    const text = Buffer.from(this.buf.buffer, this.buf.byteOffset + this.pos, length);
    if (!isUtf8(text)) throw new Error('a string is not valid UTF-8');
    this.pos = end;
    return text.toString('utf8');
  }
}
