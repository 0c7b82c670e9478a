/** The status of a failed call, within the limits of what clients accept. */
import { type CsiError, StatusCode } from '../../base/errors.js';

export interface CallStatus {
  code: StatusCode;
  details: string;
}

/**
 * Limit of a status message after percent-encoding. It is sent in a header, and clients limit the size of
 * the headers they accept (8 KiB in C++ gRPC).
 */
const MAX_ENCODED_MESSAGE = 4096;

export function statusOf(error: CsiError): CallStatus {
  // With OK or an unknown code the client would take the failed call for a success.
  const code = error.code > StatusCode.OK && error.code <= 16 ? error.code : StatusCode.INTERNAL;
  const message = error.message.trim() === '' ? 'the call failed without a message' : error.message;
  return { code, details: shorten(message) };
}

/**
 * Shortens a message to the limit. Replaces lone surrogates, which may come from names in a request:
 * gRPC's encoder would throw on them, outside of any handler.
 */
function shorten(message: string): string {
  // One character more than the limit is enough to find that the message is too long.
  const wellFormed = Buffer.from(message.slice(0, MAX_ENCODED_MESSAGE + 1)).toString();
  if (encodeURI(wellFormed).length <= MAX_ENCODED_MESSAGE) return wellFormed;
  let length = 0;
  let prefix = '';
  for (const character of wellFormed) {
    length += encodeURI(character).length;
    if (length > MAX_ENCODED_MESSAGE - '...'.length) break;
    prefix += character;
  }
  return `${prefix}...`;
}
