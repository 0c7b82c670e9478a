/**
 * Makes foreign text safe for a terminal, a page or a log, which act on some characters or show nothing for them. A safe name
 * can neither forge a line nor hide a part of a line.
 */

/** Control characters (including escapes and line ends), direction and zero-width marks, and Unicode's line ends. */
const ACTIVE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Text for one line, such as a name in a table. */
export function cell(text: string): string {
  return text.replaceAll(ACTIVE, '?');
}

/** Text of several lines. Line ends and tabs stay. */
export function harmless(text: string): string {
  return text.replaceAll(ACTIVE, (found) => (found === '\n' || found === '\t' ? found : '?'));
}

/** The same JSON with these characters escaped. A line feed stays, because in JSON it only stands between values. */
export function plainJson(json: string): string {
  return json.replaceAll(ACTIVE, (found) => (found === '\n' ? found : escaped(found)));
}

const escaped = (text: string): string =>
  text.replaceAll(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
