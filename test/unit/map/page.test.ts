/**
 * The page of `map --html` in a real browser: what it draws, how it zooms, what the tooltip says, dark, light and in
 * print. BLOCKDELTA_MAP_SCREENSHOT=FILE keeps a picture of it: that is how docs/map.png is made.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { pathToFileURL } from 'node:url';
import { CellCounter } from '../../../src/tools/map/cells.js';
import { formatPage, type Subject } from '../../../src/tools/map/page.js';
import { hasBrowser, type OpenPage, openPage, test } from '../../support/browser.js';
import { temporaryDirectory } from '../../support/temporary.js';

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

let browser: OpenPage;
before(async () => {
  if (hasBrowser) browser = await openPage(WIDTH, HEIGHT);
});
after(() => browser?.close());

/** The value of an expression on the page. */
const evaluate = <T>(expression: string): Promise<T> => browser.page.evaluate<T>(expression);

async function open(page: string): Promise<void> {
  const file = join(temporaryDirectory(), 'map.html');
  writeFileSync(file, page);
  await browser.page.goto(pathToFileURL(file).href);
  await evaluate(TWO_FRAMES);
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

async function box(): Promise<{ left: number; top: number; width: number; step: number }> {
  return evaluate(`(() => {
    const grid = document.getElementById('grid');
    const { left, top, width } = grid.getBoundingClientRect();
    return { left, top, width, step: Number(grid.dataset.step) };
  })()`);
}

const pointAt = (x: number, y: number): Promise<void> => browser.page.mouse.move(x, y);
const press = (key: string): Promise<void> => browser.page.keyboard.press(key);

test('the page draws every cell in the colour of its share, without an error or a request', async () => {
  await open(formatPage(DELTA, cells()));
  assert.equal(await evaluate(VIEW), '0 B to 8 GiB: 1 GiB changed; one cell is 2 MiB');
  const drawn = await evaluate<Record<string, number>>(DRAWN);
  // 4096 cells of 2 MiB: an eighth full, one with 4 KiB.
  const { blank, ...levels } = drawn;
  assert.deepEqual(levels, { 0: 3583, 1: 1, 5: 512 });
  assert.ok(blank !== undefined && blank > 0);
  const facts = await evaluate<string>(`document.querySelector('dl').innerText`);
  assert.match(facts, /1073745920 \(1 GiB\), 12.5 % of the volume, in 2 ranges/);
  const wide = await evaluate<number>(`document.documentElement.scrollWidth`);
  assert.ok(wide <= WIDTH, `${wide} pixels`);
  assert.deepEqual(browser.problems, []);
});

test('the tooltip names the offsets and the bytes of the cell below the pointer', async () => {
  await open(formatPage(DELTA, cells()));
  const { left, top, width, step } = await box();
  await pointAt(left + step + 4, top + 4);
  assert.deepEqual(await evaluate(TIP), {
    text: 'at 2 MiB, 2 MiB long\nbytes 2097152 to 4194303\n2097152 B changed, 100 %',
    hidden: false,
    inside: true,
  });
  const columns = Math.floor(width / step);
  const at = 2048;
  const [x, y] = [at % columns, Math.floor(at / columns)];
  await pointAt(left + x * step + 4, top + y * step + 4);
  assert.deepEqual(await evaluate(TIP), {
    text: 'at 4 GiB, 2 MiB long\nbytes 4294967296 to 4297064447\n4096 B changed, 0.2 %',
    hidden: false,
    inside: true,
  });
  const screenshot = process.env['BLOCKDELTA_MAP_SCREENSHOT'];
  if (screenshot !== undefined) writeFileSync(screenshot, await browser.page.screenshot());
  await pointAt(left + 4, top - 20);
  assert.equal((await evaluate<{ hidden: boolean }>(TIP)).hidden, true);
  assert.deepEqual(browser.problems, []);
});

test('wheel, keys and buttons zoom and move, never beyond the volume', async () => {
  await open(formatPage(DELTA, cells()));
  const { left, top } = await box();
  await pointAt(left + 4, top + 4);
  for (let turn = 0; turn < 3; turn += 1) await browser.page.mouse.wheel(0, -100);
  const seen = async (pattern: RegExp) => assert.match(await evaluate(VIEW), pattern);
  await seen(/^0 B to 1 GiB: 1 GiB changed; one cell is 256 KiB$/);
  await press('PageDown');
  await seen(/^1 GiB to 2 GiB: 0 B changed/);
  await press('End');
  await seen(/^7 GiB to 8 GiB: /);
  await press('PageDown');
  await seen(/^7 GiB to 8 GiB: /);
  for (let turn = 0; turn < 30; turn += 1) await press('+');
  await seen(/one cell is 32 KiB$/);
  for (let turn = 0; turn < 30; turn += 1) await press('-');
  await seen(/^0 B to 8 GiB: /);
  await evaluate(`document.getElementById('in').click()`);
  await seen(/^2 GiB to 6 GiB: 4 KiB changed/);
  await evaluate(`document.getElementById('whole').click()`);
  await seen(/^0 B to 8 GiB: /);
  assert.deepEqual(browser.problems, []);
});

test('the page is dark where the system is, and light in print', async () => {
  await open(formatPage(DELTA, cells()));
  const background = `getComputedStyle(document.body).backgroundColor`;
  const seen: unknown[] = [];
  for (const media of ['screen', 'print'] as const) {
    for (const colorScheme of ['light', 'dark'] as const) {
      await browser.page.emulateMedia({ media, colorScheme });
      await evaluate(TWO_FRAMES);
      const { blank, ...levels } = await evaluate<Record<string, number>>(DRAWN);
      seen.push([await evaluate(background), levels['0'], levels['5'], levels['-1']]);
    }
  }
  const [light, night] = ['rgb(255, 255, 255)', 'rgb(13, 17, 23)'];
  assert.deepEqual(
    seen,
    [light, night, light, light].map((colour) => [colour, 3583, 512, undefined]),
  );
  assert.deepEqual(browser.problems, []);
});

test('ids of a hostile driver stay text', async () => {
  const snapshotId = `</script><script>window.broken=1</script><img src=x onerror="window.broken=1">`;
  const subject = { snapshotId, baseId: `'"><b>&amp;`, grain: null };
  await open(formatPage(subject, cells()));
  const heading = await evaluate(`document.querySelector('h1').textContent`);
  assert.equal(heading, `Changes from '"><b>&amp; to ${snapshotId}`);
  assert.equal(await evaluate(`typeof window.broken`), 'undefined');
  assert.deepEqual(browser.problems, []);
});

test('a volume of no bytes and one of 2^63 bytes have pages without errors', async () => {
  const allocated: Subject = {
    snapshotId: 's',
    baseId: null,
    grain: { bytes: 65536n, unmerged: { ranges: 0, bytes: 0n } },
  };
  for (const capacity of [0n, 2n ** 63n - 1n]) {
    await open(formatPage(allocated, new CellCounter(capacity)));
    await press('+');
    await press('-');
    assert.deepEqual(browser.problems, []);
  }
});
