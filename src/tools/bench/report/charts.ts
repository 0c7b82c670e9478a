/** Draws the charts of a report as SVG elements. Colours come from the page's style sheet, so charts can be light or dark. */

import { escapeText } from '../../markup.js';
import { type Curve, judgedFigure, type Row, type Side } from '../row.js';
import { spread } from '../statistics.js';
import { linear, logarithmic, type Scale, tickLabel } from './scale.js';
import { figure, verdictCell } from './table.js';

const WIDTH = 900;
const LABEL_WIDTH = 230;
/** The number of characters that fit beside the axis in 13 px. */
const LABEL_CHARACTERS = 26;
const ROW_HEIGHT = 26;
const AXIS_HEIGHT = 46;
const TOP = 14;
const RIGHT = 140;
const SIDE_HEIGHT = 22;
const CURVE_HEIGHT = 320;
const CURVE_LEFT = 90;
const DOT = 3.5;

/**
 * Draws each target as one line: the rounds and the judged figure as multiples of the bound, on a logarithmic axis on
 * which left of 1 is always better. Rounds at or below zero, such as memory that shrank, stand at the left end.
 */
export function targetsChart(rows: readonly Row[]): string {
  const shown = rows.filter(({ target }) => target && target.rounds.length > 0);
  if (shown.length === 0) return '';
  const lines = shown.map((row) => ({ row, ...againstBound(row) }));
  const every = lines.flatMap(({ rounds, judged }) => [...rounds, judged]);
  const scale = logarithmic([...every.filter((value) => value > 0.001), 0.5, 2], LABEL_WIDTH, WIDTH - RIGHT);
  const bottom = TOP + lines.length * ROW_HEIGHT;
  const body = lines.map(({ row, rounds, judged }, index) => {
    const y = TOP + (index + 0.5) * ROW_HEIGHT;
    const verdict = verdictCell(row);
    const kind = judged <= 1 ? 'met' : 'missed';
    return (
      `<g class="${kind}"><title>${escapeText(`${row.name}: ${verdict}`)}</title>` +
      text(LABEL_WIDTH - 10, y, row.name, 'end') +
      `<line class="range" x1="${at(scale, Math.min(...rounds))}" x2="${at(scale, Math.max(...rounds))}" y1="${y}" y2="${y}"/>` +
      marks(scale, y, rounds, judged) +
      `${text(WIDTH - RIGHT + 10, y, verdict, 'start')}</g>`
    );
  });
  const bound = scale.at(1).toFixed(1);
  return svg(
    bottom + AXIS_HEIGHT,
    'Targets: each round divided by its bound',
    verticalGrid(scale, TOP, bottom, (value) => `${tickLabel(value)}×`) +
      `<line class="bound" x1="${bound}" x2="${bound}" y1="${TOP - 8}" y2="${bottom}"/>` +
      body.join('') +
      text((LABEL_WIDTH + WIDTH - RIGHT) / 2, bottom + 36, 'multiple of the bound; left of 1× is met', 'middle'),
  );
}

/** Draws both sides of one row, with a dot for each round and a mark at the median. Omits a peer with another unit. */
export function sidesChart(row: Row): string {
  const sides = [row.ours, row.peer].filter(({ rounds }) => rounds.length > 0);
  if (sides.length === 0) return '';
  const sameUnit = sides.every(({ unit }) => unit === sides[0]?.unit);
  const shown = sameUnit ? sides : sides.slice(0, 1);
  const scale = linear(
    shown.flatMap(({ rounds }) => rounds),
    LABEL_WIDTH,
    WIDTH - RIGHT,
  );
  const bottom = TOP + shown.length * SIDE_HEIGHT;
  const body = shown.map((side, index) => oneSide(side, index === 0, scale, TOP + (index + 0.5) * SIDE_HEIGHT));
  const unit = shown[0]?.unit ?? '';
  return svg(
    bottom + AXIS_HEIGHT,
    `${row.name}: ${row.measures}`,
    verticalGrid(scale, TOP, bottom, tickLabel) +
      body.join('') +
      text((LABEL_WIDTH + WIDTH - RIGHT) / 2, bottom + 36, unit, 'middle'),
  );
}

function oneSide({ label, unit, rounds }: Side, isOurs: boolean, scale: Scale, y: number): string {
  const { median } = spread(rounds);
  return (
    `<g class="${isOurs ? 'line0' : 'line1'}"><title>${escapeText(`${label}: median ${figure(median)} ${unit}`)}</title>` +
    text(LABEL_WIDTH - 10, y, fitting(label), 'end') +
    marks(scale, y, rounds, median) +
    `${text(WIDTH - RIGHT + 10, y, figure(median), 'start')}</g>`
  );
}

/** Draws a dot for each round, and a line at the median. */
function marks(scale: Scale, y: number, rounds: readonly number[], median: number): string {
  const x = at(scale, median);
  return (
    rounds.map((value) => `<circle cx="${at(scale, value)}" cy="${y}" r="${DOT}"/>`).join('') +
    `<line class="median" x1="${x}" x2="${x}" y1="${y - 8}" y2="${y + 8}"/>`
  );
}

/** Draws how a cost grows: logarithmic axes, a line through the medians, and a bar from the lowest to the highest round. */
export function curveChart(curve: Curve): string {
  const points = curve.lines.flatMap((line) => line.points);
  if (points.length === 0) return '';
  const legend = TOP + curve.lines.length * SIDE_HEIGHT;
  const bottom = legend + CURVE_HEIGHT;
  const x = logarithmic(
    points.map((point) => point.x),
    CURVE_LEFT,
    WIDTH - 30,
  );
  const y = logarithmic(
    points.flatMap(({ rounds }) => rounds),
    bottom,
    legend + 10,
  );
  const body = curve.lines.map(({ label, points: own }, index) => {
    const key = TOP + (index + 0.5) * SIDE_HEIGHT;
    const path = own.map((point) => `${at(x, point.x)},${at(y, spread(point.rounds).median)}`);
    const marks = own.map((point) => {
      const { median, min, max } = spread(point.rounds);
      const title = `${label}: ${figure(median)} (${figure(min)}-${figure(max)}) at ${tickLabel(point.x)}`;
      return (
        `<g><title>${escapeText(title)}</title>` +
        `<line class="range" x1="${at(x, point.x)}" x2="${at(x, point.x)}" y1="${at(y, min)}" y2="${at(y, max)}"/>` +
        `<circle cx="${at(x, point.x)}" cy="${at(y, median)}" r="${DOT}"/></g>`
      );
    });
    return (
      `<g class="line${index % 6}"><circle cx="${CURVE_LEFT + 6}" cy="${key}" r="${DOT}"/>` +
      `${text(CURVE_LEFT + 18, key, label, 'start')}<polyline points="${path.join(' ')}"/>${marks.join('')}</g>`
    );
  });
  return svg(
    bottom + AXIS_HEIGHT,
    curve.title,
    verticalGrid(x, legend + 10, bottom, tickLabel) +
      horizontalGrid(y, CURVE_LEFT, WIDTH - 30) +
      body.join('') +
      text((CURVE_LEFT + WIDTH) / 2, bottom + 36, curve.x, 'middle') +
      `<text transform="translate(16 ${(legend + bottom) / 2}) rotate(-90)" text-anchor="middle">${escapeText(curve.y)}</text>`,
  );
}

/** Expresses figures as multiples of the bound. A lower bound is inverted, so that less is always better. */
function againstBound(row: Row): { rounds: number[]; judged: number } {
  const { target } = row;
  if (!target) return { rounds: [], judged: Number.NaN };
  const share = (value: number): number => ('atMost' in target ? value / target.atMost : target.atLeast / value);
  return { rounds: target.rounds.map(share), judged: share(judgedFigure(target)) };
}

function verticalGrid(scale: Scale, top: number, bottom: number, label: (value: number) => string): string {
  return scale.ticks
    .map((tick) => {
      const x = at(scale, tick);
      return `<line class="grid" x1="${x}" x2="${x}" y1="${top}" y2="${bottom}"/>${text(Number(x), bottom + 16, label(tick), 'middle')}`;
    })
    .join('');
}

function horizontalGrid(scale: Scale, left: number, right: number): string {
  return scale.ticks
    .map((tick) => {
      const y = at(scale, tick);
      return `<line class="grid" x1="${left}" x2="${right}" y1="${y}" y2="${y}"/>${text(left - 8, Number(y), tickLabel(tick), 'end')}`;
    })
    .join('');
}

function at(scale: Scale, value: number): string {
  return scale.at(value).toFixed(1);
}

/** Shortens a label. The title of the marks has the whole label. */
const fitting = (label: string): string =>
  label.length <= LABEL_CHARACTERS ? label : `${label.slice(0, LABEL_CHARACTERS - 1)}…`;

function text(x: number, y: number, content: string, anchor: 'start' | 'middle' | 'end'): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" dominant-baseline="central">${escapeText(content)}</text>`;
}

function svg(height: number, title: string, body: string): string {
  return (
    `<svg viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escapeText(title)}">` +
    `<title>${escapeText(title)}</title>${body}</svg>`
  );
}
