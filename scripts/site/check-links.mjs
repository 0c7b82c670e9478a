/**
 * Checks that every link of a built site leads to a file of it and, if it has an anchor, to an element there; and
 * that no page loads anything from elsewhere.
 *
 *   node check-links.mjs DIRECTORY BASE
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

const [directory, base] = process.argv.slice(2);
const pages = readdirSync(directory, { recursive: true }).filter((name) => name.endsWith('.html'));
const texts = new Map(pages.map((page) => [page, readFileSync(join(directory, page), 'utf8')]));
const ids = new Map([...texts].map(([page, text]) => [page, new Set(matches(text, /\sid="([^"]+)"/g))]));
const problems = [];
let count = 0;
for (const [page, text] of texts) {
  const links = matches(text, /<a\b[^>]*?\shref="([^"]*)"/g);
  const loaded = matches(text, /<(?:link|script|img)\b[^>]*?\s(?:href|src)="([^"]*)"/g);
  for (const link of new Set([...links, ...loaded])) {
    const problem = problemOf(page, link.replaceAll('&amp;', '&'), loaded.includes(link));
    if (problem !== null) problems.push(`${page}: ${link}: ${problem}`);
    count += 1;
  }
}
for (const problem of problems) console.error(problem);
console.error(`${pages.length} pages, ${count} links, ${problems.length} of them lead nowhere`);
process.exitCode = problems.length === 0 && pages.length > 1 ? 0 : 1;

function matches(text, pattern) {
  return [...text.matchAll(pattern)].map(([, found]) => found);
}

function problemOf(page, link, isLoaded) {
  const here = new URL(`http://site${base}${page}`);
  const { origin, protocol, pathname, hash } = new URL(link, here);
  if (protocol === 'data:') return null;
  if (origin !== here.origin) return isLoaded ? 'another host' : null;
  const path = decodeURI(pathname);
  if (!path.startsWith(base)) return `not below ${base}`;
  const file = path.slice(base.length).replace(/(^|\/)$/, '$1index.html');
  if (!existsSync(join(directory, file)) || !statSync(join(directory, file)).isFile()) return 'no such file';
  if (hash === '' || !ids.has(file)) return null;
  return ids.get(file).has(decodeURIComponent(hash.slice(1))) ? null : 'no such anchor';
}
