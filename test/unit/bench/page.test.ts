/**
 * The page of `bench --html` in a real browser: its charts are drawn within the page, nothing is requested, and it is
 * dark where the reader's system is. BLOCKDELTA_BENCH_JSON=FILE opens the page of that report, and
 * BLOCKDELTA_BENCH_SCREENSHOT=FILE keeps a picture of it: that is how docs/engineering/bench-report.png is made.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Document, parseDocument } from '../../../src/tools/bench/report/document.js';
import { formatHtml } from '../../../src/tools/bench/report/html.js';
import { fullReport } from '../../support/bench-report.js';
import { openPage, test } from '../../support/browser.js';
import { temporaryDirectory } from '../../support/temporary.js';

const WIDTH = 1000;
const HEIGHT = 1100;

interface Drawn {
  title: string;
  width: number;
  height: number;
  circles: number;
  /** Texts and circles whose box lies outside the chart. */
  outside: string[];
}

const CHARTS = `[...document.querySelectorAll('svg')].map((svg) => {
  const chart = svg.getBoundingClientRect();
  const marks = [...svg.querySelectorAll('text, circle')];
  const isOutside = (mark) => {
    const box = mark.getBoundingClientRect();
    return box.width === 0 || box.left < chart.left - 1 || box.right > chart.right + 1 ||
      box.top < chart.top - 1 || box.bottom > chart.bottom + 1;
  };
  return {
    title: svg.querySelector('title').textContent,
    width: chart.width,
    height: chart.height,
    circles: svg.querySelectorAll('circle').length,
    outside: marks.filter(isOutside).map((mark) => mark.textContent || mark.outerHTML),
  };
})`;

function givenReport(): Document {
  const file = process.env['BLOCKDELTA_BENCH_JSON'];
  return file === undefined ? fullReport() : parseDocument(readFileSync(file, 'utf8'));
}

test('a browser shows every chart of the page, without an error or a request', async (t) => {
  const file = join(temporaryDirectory(), 'report.html');
  const report = givenReport();
  writeFileSync(file, formatHtml(report));
  const { page, problems, close } = await openPage(WIDTH, HEIGHT);
  t.after(close);

  await page.goto(pathToFileURL(file).href);
  const charts = await page.evaluate<Drawn[]>(CHARTS);
  const measured = report.rows.filter(({ ours, peer }) => ours.rounds.length + peer.rounds.length > 0);
  assert.equal(charts.length, 1 + measured.length + report.curves.length);
  for (const { title, width, height, circles, outside } of charts) {
    assert.ok(width > 500 && height > 50 && circles > 0, `${title}: ${width} x ${height}, ${circles} circles`);
    assert.deepEqual(outside, [], title);
  }
  const screenshot = process.env['BLOCKDELTA_BENCH_SCREENSHOT'];
  if (screenshot !== undefined) writeFileSync(screenshot, await page.screenshot());

  const background = `getComputedStyle(document.body).backgroundColor`;
  const light = await page.evaluate<string>(background);
  await page.emulateMedia({ colorScheme: 'dark' });
  const dark = await page.evaluate<string>(background);
  assert.deepEqual([light, dark], ['rgb(255, 255, 255)', 'rgb(13, 17, 23)']);
  assert.deepEqual(problems, []);
});
