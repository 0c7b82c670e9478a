/** Escapes text for HTML, SVG and their attributes. */
import { harmless } from '../base/plain-text.js';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

export function escapeText(text: string): string {
  return harmless(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
