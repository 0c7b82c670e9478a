/**
 * The documentation as a site: two builds are equal, a dead link fails one, and a browser opens every page and finds
 * a word, with requests to the site alone.
 *
 * BLOCKDELTA_SITE_SCREENSHOT names a file for a picture of the search.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { before, test as plainTest } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { openPage, test } from '../support/browser.js';
import { copySources } from '../support/checkout-copy.js';
import { temporaryDirectory } from '../support/temporary.js';

const directory = temporaryDirectory();
const site = join(directory, 'site');
const BASE = '/blockdelta/';

before(() => build(packagePath(''), site));

function build(checkout: string, out: string): void {
  const options = ['--out', out, '--base', BASE];
  execFileSync(join(checkout, 'scripts/build-site'), options, { stdio: 'pipe' });
}

plainTest('the same files give the same site', () => {
  const again = join(directory, 'again');
  build(packagePath(''), again);
  const { status, stdout } = spawnSync('diff', ['-r', '-q', site, again], { encoding: 'utf8' });
  assert.equal(status, 0, stdout);
});

/** What a build says in a copy of the checkout with that line at the end of a page. */
function failureWith(name: string, line: string): string {
  const copy = join(directory, name);
  copySources(copy);
  symlinkSync(packagePath('scripts/site/node_modules'), join(copy, 'scripts/site/node_modules'));
  appendFileSync(join(copy, 'docs/faq.md'), `\n${line}\n`);
  const out = join(copy, 'out');
  const command = join(copy, 'scripts/build-site');
  const { status, stderr } = spawnSync(command, ['--out', out], { encoding: 'utf8' });
  assert.notEqual(status, 0);
  return stderr;
}

plainTest('a link to no file, or to no anchor, fails the build and is named', () => {
  const noFile = failureWith('no-file', 'See [this](nothing.md).');
  assert.match(noFile, /docs\/faq\.md links to nothing\.md, but there is no docs\/nothing\.md/);
  const noAnchor = failureWith('no-anchor', 'See [this](limits.md#nothing).');
  assert.match(noAnchor, /^faq\.html: .*limits\.html#nothing: no such anchor$/m);
});

plainTest('the site does not replace files of others', () => {
  const other = join(directory, 'other');
  mkdirSync(other);
  writeFileSync(join(other, 'file'), '');
  const { status, stderr } = spawnSync(packagePath('scripts/build-site'), ['--out', other], { encoding: 'utf8' });
  assert.equal(status, 1);
  assert.match(stderr, /has files that no earlier build has made: name another directory/);
  assert.deepEqual(readdirSync(other), ['file']);
});

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

/** The site as any server of static files has it. */
async function serve(): Promise<{ address: string; close(): void }> {
  const server = createServer(({ url = '' }, response) => {
    const path = decodeURI(new URL(url, 'http://site').pathname).slice(BASE.length);
    try {
      const file = join(site, path === '' || path.endsWith('/') ? `${path}index.html` : path);
      const content = readFileSync(file);
      const type = TYPES[extname(file)] ?? 'application/octet-stream';
      response.writeHead(200, { 'content-type': type }).end(content);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { address: `http://127.0.0.1:${port}`, close };
}

test('a browser opens every page, and the search finds where a word is', async () => {
  const { address, close } = await serve();
  const browser = await openPage(1280, 800);
  const { page } = browser;
  try {
    const home = `${address}${BASE}`;
    await page.goto(home);
    const links = page.locator('.VPSidebar a');
    const targets = await links.evaluateAll((all) => all.map((each) => each.getAttribute('href') ?? ''));
    assert.equal(new Set(targets).size, targets.length);
    const pages = readdirSync(packagePath('docs')).filter((name) => name.endsWith('.md'));
    assert.ok(targets.length > pages.length);
    for (const target of targets) {
      await page.goto(new URL(target, home).href);
      await page.locator('main h1').waitFor();
    }

    await page.goto(home);
    await page.locator('.VPNavBarSearch button').click();
    await page.locator('.VPLocalSearchBox input').fill('GetMetadataDelta');
    const found = page.locator('.VPLocalSearchBox .result');
    await found.first().waitFor();
    const screenshot = process.env['BLOCKDELTA_SITE_SCREENSHOT'];
    if (screenshot !== undefined) writeFileSync(screenshot, await page.screenshot());
    await found.first().click();
    await page.waitForURL((url) => url.href !== home);
    await page.locator('main', { hasText: 'GetMetadataDelta' }).waitFor();

    // A file that is missing is a message on the console.
    const own = `a request to ${home}`;
    assert.deepEqual(
      browser.problems.filter((problem) => !problem.startsWith(own)),
      [],
    );
  } finally {
    await browser.close();
    close();
  }
});
