/**
 * Formats the picture as one HTML page that needs nothing else: style, script and data are inside, and the page's policy
 * forbids the browser to load or send anything. The page is light or dark as the reader's system is, and light in print.
 *
 * Ids come from a driver, so the page escapes them. The data contains no ids.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { humanSize, rounded, withHumanSize } from '../../base/human-size.js';
import { escapeText } from '../markup.js';
import type { Cells } from './cells.js';
import { LEVELS } from './levels.js';
import type { PageData } from './page-data.js';
import { PAGE_STYLE } from './page-style.js';

export interface Subject {
  readonly snapshotId: string;
  /** Null if the page shows the ranges with data, not changes. */
  readonly baseId: string | null;
  /** Null if the page shows the ranges as the driver reports them. */
  readonly grain: Grain | null;
}

/** Ranges were rounded outward to multiples of `bytes` and merged. */
export interface Grain {
  readonly bytes: bigint;
  /** The list before rounding and merging. */
  readonly unmerged: { readonly ranges: number; readonly bytes: bigint };
}

export function formatPage(subject: Subject, cells: Cells): string {
  const title = titleOf(subject);
  const data: PageData = {
    capacityBytes: Number(cells.capacityBytes),
    cellBytes: Number(cells.cellBytes),
    word: wordOf(subject),
    runs: runsOf(cells.bytes),
  };
  const script = readFileSync(new URL('./page-script.js', import.meta.url), 'utf8');
  const hash = createHash('sha256').update(script).digest('base64');
  const policy = `default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-${hash}'`;
  const facts = factsOf(subject, cells).map(
    ([name, value]) => `<dt>${escapeText(name)}</dt><dd>${escapeText(value)}</dd>`,
  );
  const legend = LEVELS.map(({ label }, level) => `<li><span class="level${level}"></span>${escapeText(label)}</li>`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escapeText(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${escapeText(title)}</title><style>${PAGE_STYLE}</style></head><body>
<h1>${escapeText(title)}</h1>
<dl>${facts.join('')}</dl>
<ul class="legend" aria-label="share of a cell">${legend.join('')}</ul>
<noscript><p>The picture needs JavaScript. The totals above are complete.</p></noscript>
<div class="tools">
<button id="in" type="button" title="zoom in (+)">+</button>
<button id="out" type="button" title="zoom out (-)">−</button>
<button id="whole" type="button" title="the whole volume (0)">whole volume</button>
<output id="view"></output></div>
<canvas id="overview" height="18" aria-hidden="true"></canvas>
<canvas id="grid" tabindex="0" role="img" aria-label="${escapeText(title)}"></canvas>
<div id="tip" role="status" hidden></div>
<p class="help">Wheel or + and − zoom, dragging or the arrow keys move, 0 shows the whole volume.</p>
<script type="application/json" id="data">${JSON.stringify(data)}</script>
<script>${script}</script>
</body></html>
`;
}

export function titleOf({ snapshotId, baseId }: Subject): string {
  return baseId === null ? `Data of snapshot ${snapshotId}` : `Changes from ${baseId} to ${snapshotId}`;
}

/** Returns facts as names and values, for people. */
export function factsOf(subject: Subject, cells: Cells): [string, string][] {
  const { capacityBytes, totalBytes, ranges, cellBytes } = cells;
  const share = capacityBytes === 0n ? 0 : Number(totalBytes) / Number(capacityBytes);
  return [
    ['volume', withHumanSize(capacityBytes)],
    [
      wordOf(subject),
      `${withHumanSize(totalBytes)}, ${rounded(share * 100, 2)} % of the volume, in ${countOf(ranges)}`,
    ],
    ...grainFacts(subject.grain, totalBytes),
    ['smallest cell', humanSize(cellBytes)],
  ];
}

/** Returns the facts that show what the grain costs a reader of these ranges. */
function grainFacts(grain: Grain | null, totalBytes: bigint): [string, string][] {
  if (grain === null) return [];
  const { bytes, unmerged } = grain;
  const times = unmerged.bytes === 0n ? 1 : Number(totalBytes) / Number(unmerged.bytes);
  const before = `${withHumanSize(unmerged.bytes)} in ${countOf(unmerged.ranges)}`;
  return [
    ['grain', `${humanSize(bytes)}, ${rounded(times, 2)} times as many bytes as without it`],
    ['without grain', before],
  ];
}

function countOf(ranges: number): string {
  return `${ranges} ${ranges === 1 ? 'range' : 'ranges'}`;
}

function wordOf({ baseId }: Subject): string {
  return baseId === null ? 'data' : 'changed';
}

function runsOf(bytes: Float64Array): number[] {
  const runs: number[] = [];
  let from = 0;
  for (let index = 1; index <= bytes.length; index += 1) {
    if (index < bytes.length && bytes[index] === bytes[from]) continue;
    if (bytes.length > 0) runs.push(bytes[from] ?? 0, index - from);
    from = index;
  }
  return runs;
}
