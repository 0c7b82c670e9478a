/**
 * Formats a report as one HTML page that needs nothing else: no script, no font, no image, no other file. The page is
 * light or dark, as the reader's system is.
 */

import { escapeText } from '../../markup.js';
import { type Row, verdict } from '../row.js';
import { curveChart, sidesChart, targetsChart } from './charts.js';
import type { Document } from './document.js';
import { HEADINGS, ratioCell, sideCell, targetCell, verdictCell } from './table.js';
import { heading, summary } from './text.js';

const STYLE = `
:root { color-scheme: light dark; --text: #1c2128; --soft: #57606a; --page: #ffffff; --grid: #d8dee4;
  --met: #1a7f37; --missed: #bc4c00; --c0: #0969da; --c1: #bf3989; --c2: #1a7f37; --c3: #9a6700; --c4: #8250df;
  --c5: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --soft: #9da7b3; --page: #0d1117; --grid: #30363d; --met: #3fb950; --missed: #f0883e;
    --c0: #58a6ff; --c1: #f778ba; --c2: #3fb950; --c3: #d29922; --c4: #bc8cff; --c5: #9da7b3; }
}
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 2em auto;
  max-width: 1000px; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; } h3 { font-size: 1em; margin-bottom: 0; }
p.facts, pre { color: var(--soft); font-size: 0.9em; } pre { white-space: pre-wrap; font-family: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9em; }
th, td { text-align: left; padding: 0.3em 0.8em 0.3em 0; border-bottom: 1px solid var(--grid); vertical-align: top; }
td.met { color: var(--met); } td.missed { color: var(--missed); font-weight: 600; }
td.name { white-space: nowrap; }
svg { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: var(--text); } svg .grid { stroke: var(--grid); }
svg .bound { stroke: var(--text); stroke-dasharray: 4 3; }
svg .range { stroke: currentColor; opacity: 0.5; } svg .median { stroke: currentColor; stroke-width: 2.5; }
svg circle { fill: currentColor; opacity: 0.75; } svg polyline { fill: none; stroke: currentColor; stroke-width: 1.8; }
.met { color: var(--met); } .missed { color: var(--missed); }
.line0 { color: var(--c0); } .line1 { color: var(--c1); } .line2 { color: var(--c2); } .line3 { color: var(--c3); }
.line4 { color: var(--c4); } .line5 { color: var(--c5); }
`;

export function formatHtml(document: Document): string {
  const { rows, curves, suites } = document;
  const targets = targetsChart(rows);
  const failed = suites.filter(({ failure }) => failure !== null);
  const parts = [
    `<h1>blockdelta bench</h1><pre>${escapeText(heading(document))}</pre>`,
    `<p>${escapeText(summary(document))}</p>`,
    ...failed.map(({ name, failure }) => `<p class="missed">Suite ${escapeText(`${name} failed: ${failure}`)}</p>`),
    targets === '' ? '' : `<h2>Targets</h2>${targets}`,
    rows.length === 0 ? '' : `<h2>Rows</h2>${tableOf(rows)}`,
    curves.length === 0 ? '' : '<h2>How costs grow</h2>',
    ...curves.map((curve) => `<h3>${escapeText(curve.title)}</h3>${curveChart(curve)}`),
    rows.length === 0 ? '' : '<h2>Rounds</h2>',
    ...rows.map(rounds),
  ];
  return (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width, initial-scale=1">' +
    // Otherwise the browser would request /favicon.ico.
    '<link rel="icon" href="data:,">' +
    `<title>blockdelta bench</title><style>${STYLE}</style></head><body>\n${parts.join('\n')}\n</body></html>\n`
  );
}

function tableOf(rows: readonly Row[]): string {
  const body = rows.map((row) => {
    const cells = [sideCell(row.ours), sideCell(row.peer), ratioCell(row), targetCell(row.target)];
    const kind = verdict(row).replace(' ', '-');
    return (
      `<tr><td class="name">${escapeText(row.name)}</td>` +
      `${cells.map((cell) => `<td>${escapeText(cell)}</td>`).join('')}` +
      `<td class="${kind}">${escapeText(verdictCell(row))}</td></tr>`
    );
  });
  return (
    `<div class="scroll"><table><thead><tr>${HEADINGS.map((cell) => `<th>${cell}</th>`).join('')}</tr></thead>` +
    `<tbody>${body.join('\n')}</tbody></table></div>`
  );
}

function rounds(row: Row): string {
  const facts = Object.entries(row.facts).map(([name, value]) => `${name} ${value}`);
  return (
    `<h3>${escapeText(row.name)}</h3><p class="facts">${escapeText(row.measures)}` +
    `${facts.length === 0 ? '' : `<br>${escapeText(facts.join(', '))}`}</p>${sidesChart(row)}`
  );
}
