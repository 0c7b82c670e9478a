/**
 * The page of `map --html` in a real browser: what it draws, how it zooms, what the tooltip says, dark, light and in
 * print. BLOCKDELTA_MAP_SCREENSHOT=FILE keeps a picture of it: that is how docs/map.png is made.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { CellCounter } from '../../../src/map/cells.js';
import { formatPage, type Subject } from '../../../src/map/page.js';
import { Browser, skipWithoutBrowser } from '../../support/browser.js';
import { seededRandom } from '../../support/random.js';

const WIDTH = 1000;
const HEIGHT = 900;
const GIB = 1024n ** 3n;
const DELTA: Subject = { snapshotId: 'snap-b', baseId: 'snap-a', grain: null };

/** 8 GiB: the first GiB changed, one page at 4 GiB, nothing else. */
function cells(): CellCounter {
  const counter = new CellCounter(8n * GIB);
  counter.add([
    { offset: 0n, size: GIB },
    { offset: 4n * GIB, size: 4096n },
  ]);
  return counter;
}

/** As a file system leaves it: a log at a fixed place, a few large files, many small writes. */
function usual(): CellCounter {
  const random = seededRandom('map page');
  const counter = new CellCounter(8n * GIB);
  const marks = new Set<number>();
  const pages = Number((8n * GIB) / 4096n);
  for (let file = 0; file < 40; file += 1) {
    const start = random.below(pages);
    const length = 2 ** random.below(15);
    for (let page = start; page < Math.min(start + length, pages); page += 1) marks.add(page);
  }
  for (let write = 0; write < 4000; write += 1) {
    marks.add(Math.floor((random.below(1000) * random.below(pages)) / 1000));
  }
  for (let page = 1_048_576; page < 1_048_576 + 16_384; page += 1) marks.add(page);
  const sorted = [...marks].sort((a, b) => a - b);
  for (let from = 0; from < sorted.length; ) {
    let to = from + 1;
    while (to < sorted.length && sorted[to] === (sorted[to - 1] ?? 0) + 1) to += 1;
    counter.add([{ offset: BigInt(sorted[from] ?? 0) * 4096n, size: BigInt(to - from) * 4096n }]);
    from = to;
  }
  return counter;
}

async function opened(t: TestContext, page: string): Promise<Browser> {
  const directory = mkdtempSync(join(tmpdir(), 'blockdelta-map-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, 'map.html');
  writeFileSync(file, page);
  const browser = await Browser.start(WIDTH, HEIGHT);
  t.after(() => browser.close());
  await browser.open(pathToFileURL(file).href);
  return browser;
}

const VIEW = `document.getElementById('view').textContent`;
const TIP = `(() => {
  const tip = document.getElementById('tip');
  const box = tip.getBoundingClientRect();
  return { text: tip.textContent, hidden: tip.hidden,
    inside: box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight };
})()`;
/** How many cells have the colour of each level. */
const DRAWN = `(() => {
  const grid = document.getElementById('grid');
  const step = Number(grid.dataset.step);
  const { width, height } = grid;
  // A browser warns of a canvas that is read twice, except of one that is made for it.
  const copy = Object.assign(document.createElement('canvas'), { width, height });
  const context = copy.getContext('2d', { willReadFrequently: true });
  context.drawImage(grid, 0, 0);
  const pixels = context.getImageData(0, 0, width, height).data;
  const style = getComputedStyle(document.documentElement);
  const hex = (p) => '#' + [...p].slice(0, 3).map((v) => v.toString(16).padStart(2, '0')).join('');
  const palette = [0, 1, 2, 3, 4, 5].map((level) => style.getPropertyValue('--l' + level).trim());
  const seen = {};
  for (let y = 4; y < grid.clientHeight; y += step) {
    for (let x = 4; x < grid.clientWidth; x += step) {
      const pixel = pixels.slice((y * width + x) * 4, (y * width + x) * 4 + 4);
      const level = pixel[3] === 0 ? 'blank' : palette.indexOf(hex(pixel));
      seen[level] = (seen[level] || 0) + 1;
    }
  }
  return seen;
})()`;

/** The page has noticed a change of the screen and has drawn itself again. */
const TWO_FRAMES = `new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => done(true)));
})`;

async function box(
  browser: Browser,
): Promise<{ left: number; top: number; width: number; step: number }> {
  return browser.evaluate(`(() => {
    const grid = document.getElementById('grid');
    const { left, top, width } = grid.getBoundingClientRect();
    return { left, top, width, step: Number(grid.dataset.step) };
  })()`);
}

async function pointAt(browser: Browser, x: number, y: number): Promise<void> {
  await browser.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x, y });
}

async function press(browser: Browser, key: string): Promise<void> {
  await browser.send('Input.dispatchKeyEvent', { type: 'keyDown', key });
  await browser.send('Input.dispatchKeyEvent', { type: 'keyUp', key });
}

test('the page draws every cell in the colour of its share, without an error or a request', {
  skip: skipWithoutBrowser,
}, async (t) => {
  const browser = await opened(t, formatPage(DELTA, cells()));
  assert.equal(await browser.evaluate(VIEW), '0 B to 8 GiB: 1 GiB changed; one cell is 2 MiB');
  const drawn = await browser.evaluate<Record<string, number>>(DRAWN);
  // 4096 cells of 2 MiB: an eighth full, one with 4 KiB.
  const { blank, ...levels } = drawn;
  assert.deepEqual(levels, { 0: 3583, 1: 1, 5: 512 });
  assert.ok(blank !== undefined && blank > 0);
  const facts = await browser.evaluate<string>(`document.querySelector('dl').innerText`);
  assert.match(facts, /1073745920 \(1 GiB\), 12.5 % of the volume, in 2 ranges/);
  assert.deepEqual(browser.problems, []);
});

test('the tooltip names the offsets and the bytes of the cell below the pointer', {
  skip: skipWithoutBrowser,
}, async (t) => {
  const browser = await opened(t, formatPage(DELTA, cells()));
  const { left, top, width, step } = await box(browser);
  await pointAt(browser, left + step + 4, top + 4);
  assert.deepEqual(await browser.evaluate(TIP), {
    text: 'at 2 MiB, 2 MiB long\nbytes 2097152 to 4194303\n2097152 B changed, 100 %',
    hidden: false,
    inside: true,
  });
  const columns = Math.floor(width / step);
  const at = 2048;
  const [x, y] = [at % columns, Math.floor(at / columns)];
  await pointAt(browser, left + x * step + 4, top + y * step + 4);
  assert.deepEqual(await browser.evaluate(TIP), {
    text: 'at 4 GiB, 2 MiB long\nbytes 4294967296 to 4297064447\n4096 B changed, 0.2 %',
    hidden: false,
    inside: true,
  });
  await pointAt(browser, left + 4, top - 20);
  assert.equal((await browser.evaluate<{ hidden: boolean }>(TIP)).hidden, true);
  assert.deepEqual(browser.problems, []);
});

test('wheel, keys and buttons zoom and move, never beyond the volume', {
  skip: skipWithoutBrowser,
}, async (t) => {
  const browser = await opened(t, formatPage(DELTA, cells()));
  const { left, top } = await box(browser);
  const wheel = { type: 'mouseWheel', x: left + 4, y: top + 4, deltaX: 0 };
  for (let turn = 0; turn < 3; turn += 1) {
    await browser.send('Input.dispatchMouseEvent', { ...wheel, deltaY: -100 });
  }
  const seen = async (pattern: RegExp) => assert.match(await browser.evaluate(VIEW), pattern);
  await seen(/^0 B to 1 GiB: 1 GiB changed; one cell is 256 KiB$/);
  await press(browser, 'PageDown');
  await seen(/^1 GiB to 2 GiB: 0 B changed/);
  await press(browser, 'End');
  await seen(/^7 GiB to 8 GiB: /);
  await press(browser, 'PageDown');
  await seen(/^7 GiB to 8 GiB: /);
  for (let turn = 0; turn < 30; turn += 1) await press(browser, '+');
  await seen(/one cell is 32 KiB$/);
  for (let turn = 0; turn < 30; turn += 1) await press(browser, '-');
  await seen(/^0 B to 8 GiB: /);
  await browser.evaluate(`document.getElementById('in').click()`);
  await seen(/^2 GiB to 6 GiB: 4 KiB changed/);
  await browser.evaluate(`document.getElementById('whole').click()`);
  await seen(/^0 B to 8 GiB: /);
  assert.deepEqual(browser.problems, []);
});

test('the page is dark where the system is, and light in print', {
  skip: skipWithoutBrowser,
}, async (t) => {
  const browser = await opened(t, formatPage(DELTA, cells()));
  const background = `getComputedStyle(document.body).backgroundColor`;
  const dark = { name: 'prefers-color-scheme', value: 'dark' };
  const seen: unknown[] = [];
  for (const media of ['screen', 'print']) {
    for (const features of [[], [dark]]) {
      await browser.send('Emulation.setEmulatedMedia', { media, features });
      await browser.evaluate(TWO_FRAMES);
      const { blank, ...levels } = await browser.evaluate<Record<string, number>>(DRAWN);
      seen.push([await browser.evaluate(background), levels['0'], levels['5'], levels['-1']]);
    }
  }
  const [light, night] = ['rgb(255, 255, 255)', 'rgb(13, 17, 23)'];
  assert.deepEqual(
    seen,
    [light, night, light, light].map((colour) => [colour, 3583, 512, undefined]),
  );
  assert.deepEqual(browser.problems, []);
});

test('ids of a hostile driver stay text', { skip: skipWithoutBrowser }, async (t) => {
  const snapshotId = `</script><script>window.broken=1</script><img src=x onerror="window.broken=1">`;
  const subject = { snapshotId, baseId: `'"><b>&amp;`, grain: null };
  const browser = await opened(t, formatPage(subject, cells()));
  const heading = await browser.evaluate(`document.querySelector('h1').textContent`);
  assert.equal(heading, `Changes from '"><b>&amp; to ${snapshotId}`);
  assert.equal(await browser.evaluate(`typeof window.broken`), 'undefined');
  assert.deepEqual(browser.problems, []);
});

test('a volume of no bytes and one of 2^63 bytes have pages without errors', {
  skip: skipWithoutBrowser,
}, async (t) => {
  const allocated: Subject = {
    snapshotId: 's',
    baseId: null,
    grain: { bytes: 65536n, unmerged: { ranges: 0, bytes: 0n } },
  };
  for (const capacity of [0n, 2n ** 63n - 1n]) {
    const browser = await opened(t, formatPage(allocated, new CellCounter(capacity)));
    await press(browser, '+');
    await press(browser, '-');
    assert.deepEqual(browser.problems, []);
  }
});

test('a page of many changes fits the window', { skip: skipWithoutBrowser }, async (t) => {
  const page = formatPage(DELTA, usual());
  const browser = await opened(t, page);
  const wide = await browser.evaluate<number>(`document.documentElement.scrollWidth`);
  assert.ok(wide <= WIDTH, `${wide} pixels`);
  assert.deepEqual(browser.problems, []);
  const { left, top } = await box(browser);
  await pointAt(browser, left + 300, top + 214);
  assert.equal((await browser.evaluate<{ hidden: boolean }>(TIP)).hidden, false);
  const screenshot = process.env['BLOCKDELTA_MAP_SCREENSHOT'];
  if (screenshot !== undefined) writeFileSync(screenshot, await browser.screenshot());
});
