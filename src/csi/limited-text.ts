/** Text for people in fields of answers, cut to CSI's limit for strings. Status messages have their own limit. */

/** CSI's limit for a string that names no other, in bytes of UTF-8. */
export const MAX_TEXT_BYTES = 128;

/** The text, or as many of its whole characters as fit with an ellipsis behind them. */
export function limitedText(text: string): string {
  if (Buffer.byteLength(text) <= MAX_TEXT_BYTES) return text;
  const bytes = Buffer.from(text).subarray(0, MAX_TEXT_BYTES - '...'.length);
  // As a stream, so that half a character at the end is held back.
  return `${new TextDecoder().decode(bytes, { stream: true })}...`;
}
