/**
 * The site: which pages it has, its navigation and its links. docs/README.md is its first page. The tables there and in
 * docs/engineering/README.md are the navigation, so a page is listed in one place.
 *
 * SITE_REPOSITORY: where a link leads whose file is not part of the site, such as https://host/project/blob/v0.1.0.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, posix, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../../..');
const read = (path) => readFileSync(join(root, path), 'utf8');
const repository = process.env.SITE_REPOSITORY?.replace(/\/$/, '');
const { version, description } = JSON.parse(read('package.json'));

/** Place in the site by place in the repository. SECURITY.md and docs/security.md may be one file to a web server. */
const pages = new Map([
  ...['', 'engineering/'].flatMap((part) =>
    markdownIn(`docs/${part}`).map((name) => [`docs/${part}${name}`, `${part}${name.replace('README', 'index')}`]),
  ),
  ...markdownIn('.').map((name) => [name, `project/${name}`]),
]);
const sources = new Map([...pages].map(([source, page]) => [page, source]));
/** Other files below docs that a page links to. */
const attached = new Set();
/** What vitepress reads: a copy, because pages find vue only below this package. */
const copies = join(import.meta.dirname, 'cache/pages');

rmSync(copies, { recursive: true, force: true });
cpSync(join(root, 'docs'), copies, { recursive: true, filter: (path) => !path.endsWith('.md') });
for (const [source, page] of pages) cpSync(join(root, source), join(copies, page));

export default {
  ...{ title: 'blockdelta', description, lang: 'en', cleanUrls: false, lastUpdated: false },
  srcDir: copies,
  // Several pages at once enter the index of the search in an order that no build repeats.
  buildConcurrency: 1,
  // Without it a browser asks the server for an icon.
  head: [['link', { rel: 'icon', href: 'data:,' }]],
  markdown: {
    anchor: { slugify: anchorOf },
    config: (markdown) => markdown.core.ruler.push('repository links', resolveLinks),
  },
  themeConfig: {
    ...{ outline: [2, 3], externalLinkIcon: true, search: { provider: 'local' } },
    nav: [{ text: version, link: linkTo('CHANGELOG.md') }],
    sidebar: [{ text: 'First page', link: '/' }, ...sidebar()],
  },
  buildEnd({ outDir }) {
    for (const file of attached) {
      const target = join(outDir, placeOf(file));
      mkdirSync(dirname(target), { recursive: true });
      cpSync(join(root, file), target);
    }
  },
};

function markdownIn(directory) {
  return readdirSync(join(root, directory)).filter((name) => name.endsWith('.md'));
}

function placeOf(file) {
  return pages.get(file) ?? file.replace(/^docs\//, '');
}

function linkTo(source) {
  return `/${placeOf(source).replace(/(index)?\.md$/, '')}`;
}

/** The headings of both tables of contents with tables of pages, and the titles of these. */
function sidebar() {
  return ['docs', 'docs/engineering'].flatMap((directory) => {
    const groups = read(`${directory}/README.md`).split(/^## /m).slice(1).map((section) => {
      const links = [...section.matchAll(/^\| \[[^\]]*\]\(([^)#]+)\) \|/gm)];
      const items = links.map(([, target]) => {
        const source = posix.join(directory, target);
        return { text: /^# (.*)$/m.exec(read(source))[1], link: linkTo(source) };
      });
      return { text: section.split('\n')[0], items };
    });
    return groups.filter(({ items }) => items.length > 0);
  });
}

/** As GitHub and others make it, so that a link is right in the repository as well. */
function anchorOf(heading) {
  return heading.trim().toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').replaceAll(/\s/g, '-');
}

/** Turns links between files of the repository into links of the site. */
function resolveLinks({ tokens, env }) {
  const source = sources.get(env.relativePath);
  for (const { children } of tokens) {
    (children ?? []).forEach((token, index) => {
      if (token.type === 'link_open') resolveLink(source, children, index);
      if (token.type === 'image') token.attrSet('src', placeFrom(source, token.attrGet('src')));
    });
  }
}

/** Where a picture of a page is in the site, from that page. */
function placeFrom(source, path) {
  const file = posix.join(posix.dirname(source), path);
  return posix.relative(posix.dirname(placeOf(source)), placeOf(file));
}

function resolveLink(source, children, index) {
  const token = children[index];
  const href = token.attrGet('href');
  if (/^([a-z]+:|#|\/\/)/i.test(href)) return;
  const [, path, anchor] = /^([^#]*)(.*)$/.exec(href);
  const file = posix.join(posix.dirname(source), decodeURI(path)).replace(/\/$/, '');
  if (!existsSync(join(root, file))) throw new Error(`${source} links to ${href}, but there is no ${file}`);
  const toPlace = posix.relative(posix.dirname(placeOf(source)), placeOf(file));
  if (pages.has(file)) {
    token.attrSet('href', `${toPlace}${anchor}`);
  } else if (file.startsWith('docs/')) {
    attached.add(file);
    // What has a target is left as it is.
    token.attrSet('href', toPlace);
    token.attrSet('target', '_self');
  } else if (repository) {
    token.attrSet('href', `${repository}/${file}${anchor}`);
  } else {
    const end = children.findIndex((each, at) => at > index && each.type === 'link_close');
    for (const at of [index, end]) Object.assign(children[at], { type: 'text', content: '', nesting: 0 });
  }
}
