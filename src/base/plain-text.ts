/**
 * Text of others for a terminal, a page or a log, which act on some characters or show nothing for them. So a name can
 * neither forge a line nor hide a part of one.
 */

/** Controls with escapes and ends of lines, marks of direction and of width zero, and Unicode's ends of lines. */
const ACTIVE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** One line, such as a name in a table. */
export function cell(text: string): string {
  return text.replaceAll(ACTIVE, '?');
}

/** Lines stay lines. */
export function harmless(text: string): string {
  return text.replaceAll(ACTIVE, (found) => (found === '\n' || found === '\t' ? found : '?'));
}

/** The same JSON. In it only white space between values is unescaped. */
export function plainJson(json: string): string {
  return json.replaceAll(ACTIVE, (found) => (found === '\n' ? found : escaped(found)));
}

const escaped = (text: string): string =>
  text.replaceAll(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
