/**
 * Messages as bytes, field by field. A message that is passed on keeps every byte, even the bytes of fields that the proto does
 * not know. Knows the wire format of protobuf, and no RPC.
 */
import protobuf from 'protobufjs';
import { decodeMessage } from '../base/csi/proto.js';
import { CsiError } from '../base/errors.js';

/** One field of a message: its number, and its bytes with the tag. */
export interface RawField {
  readonly number: number;
  readonly bytes: Buffer;
  /** The content of a string, a message or bytes; null for numbers. */
  readonly content: Buffer | null;
}

const LENGTH_DELIMITED = 2;

/** @throws CsiError INTERNAL if the bytes are not a message of a node */
export function fieldsOf(message: Buffer): RawField[] {
  try {
    return parseFields(message);
  } catch (thrown) {
    throw CsiError.internal('a node sent bytes that are not a message', { cause: thrown });
  }
}

/**
 * The fields of a request that could be decoded. The decoder does not compare the wire type of a field with
 * the proto, so its bytes may still not be a message.
 *
 * @throws CsiError INVALID_ARGUMENT
 */
export function fieldsOfRequest(request: Buffer): RawField[] {
  try {
    return parseFields(request);
  } catch (thrown) {
    throw CsiError.invalidArgument('the request has a field of the wrong wire type', {
      cause: thrown,
    });
  }
}

function parseFields(message: Buffer): RawField[] {
  const fields: RawField[] = [];
  const reader = new protobuf.BufferReader(message);
  while (reader.pos < reader.len) {
    const start = reader.pos;
    const tag = reader.uint32();
    let content: Buffer | null = null;
    if ((tag & 7) === LENGTH_DELIMITED) content = Buffer.from(reader.bytes());
    else reader.skipType(tag & 7);
    fields.push({ number: tag >>> 3, bytes: message.subarray(start, reader.pos), content });
  }
  return fields;
}

/** The decoded message, as base/csi/proto.ts describes. @throws CsiError INTERNAL, as fieldsOf does */
export function decode<Message>(typeName: string, bytes: Buffer): Message {
  try {
    return decodeMessage(typeName, bytes);
  } catch (thrown) {
    throw CsiError.internal(`a node sent bytes that are not a ${typeName}`, { cause: thrown });
  }
}
