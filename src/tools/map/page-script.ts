/**
 * Runs in the browser that shows the page of a map, and draws the cells on a canvas. Each zoom level groups a power of
 * two of the cells, and the sums of groups come from prefix sums.
 *
 * This is a separate program, which scripts/compile.mjs bundles for browsers. page.ts puts its text into the page.
 */
import { humanSize } from '../../base/human-size.js';
import { LEVELS, levelOf } from './levels.js';
import type { PageData } from './page-data.js';

/** The page has an element for each id that the script requests. */
const byId = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
const { capacityBytes, cellBytes, word, runs }: PageData = JSON.parse(byId('data').textContent ?? '');
const grid = byId('grid') as HTMLCanvasElement;
const overview = byId('overview') as HTMLCanvasElement;
const tip = byId('tip');
const STEP = 9;
const MIN_CELLS = 32;

// before[i] is the sum of the cells before cell i.
let total = 0;
for (let index = 1; index < runs.length; index += 2) total += runs[index] ?? 0;
const before = new Float64Array(total + 1);
const sumBefore = (cell: number): number => before[cell] ?? 0;
let at = 0;
for (let index = 0; index < runs.length; index += 2) {
  const end = at + (runs[index + 1] ?? 0);
  for (; at < end; at += 1) before[at + 1] = sumBefore(at) + (runs[index] ?? 0);
}

// The grid shows `count` cells, starting at cell `first`.
const view = { first: 0, count: total };
let layout = { columns: 1, rows: 1, group: 1, step: STEP };

const size = (bytes: number): string => humanSize(BigInt(bytes), 2);
const offsetOf = (cell: number): number => Math.min(cell * cellBytes, capacityBytes);

interface Sum {
  start: number;
  end: number;
  bytes: number;
  /** The share of `bytes` in the bytes between `start` and `end`. */
  share: number;
}

// Sums the cells from `from` up to but not including `to`.
function sumOf(from: number, to: number): Sum {
  const last = Math.min(to, total);
  const start = offsetOf(from);
  const end = offsetOf(last);
  const bytes = sumBefore(last) - sumBefore(from);
  return { start, end, bytes, share: end > start ? bytes / (end - start) : 0 };
}

function colours(): string[] {
  const style = getComputedStyle(document.documentElement);
  return LEVELS.map((_, level) => style.getPropertyValue(`--l${level}`));
}

// Gives the canvas as many pixels as the screen has there. Drawing uses the units of the page.
function fit(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function layOut(): void {
  const { clientWidth: width, clientHeight: height } = grid;
  const fits = (cell: number): number => Math.floor(width / cell) * Math.floor(height / cell);
  let group = 1;
  while (Math.ceil(view.count / group) > fits(STEP)) group *= 2;
  let step = STEP;
  while (step < 60 && fits(step + 1) >= Math.ceil(view.count / group)) step += 1;
  grid.dataset['step'] = String(step);
  layout = { columns: Math.floor(width / step), rows: Math.floor(height / step), group, step };
}

function draw(): void {
  if (total === 0) return;
  layOut();
  const palette = colours();
  const { columns, rows, group, step } = layout;
  const context = fit(grid, grid.clientWidth, grid.clientHeight);
  for (let index = 0; index < columns * rows; index += 1) {
    const from = view.first + index * group;
    if (from >= Math.min(view.first + view.count, total)) break;
    context.fillStyle = palette[levelOf(sumOf(from, from + group).share)] ?? '';
    context.fillRect((index % columns) * step, Math.floor(index / columns) * step, step - 1, step - 1);
  }
  drawOverview(palette);
  const { start, end, bytes } = sumOf(view.first, view.first + view.count);
  byId('view').textContent =
    `${size(start)} to ${size(end)}: ${size(bytes)} ${word}; one cell is ${size(group * cellBytes)}`;
}

// Draws the whole volume in one strip, with a frame around the part that the grid shows.
function drawOverview(palette: readonly string[]): void {
  const { clientWidth: width, clientHeight: height } = overview;
  const context = fit(overview, width, height);
  for (let x = 0; x < width; x += 1) {
    const from = Math.floor((x / width) * total);
    const to = Math.max(Math.floor(((x + 1) / width) * total), from + 1);
    context.fillStyle = palette[levelOf(sumOf(from, to).share)] ?? '';
    context.fillRect(x, 0, 1, height);
  }
  if (view.count >= total) return;
  context.strokeStyle = getComputedStyle(document.body).color;
  context.lineWidth = 2;
  const frame = Math.max((view.count / total) * width, 4);
  context.strokeRect((view.first / total) * width + 1, 1, frame, height - 2);
}

function cellAt(x: number, y: number): number | null {
  const { columns, group, step } = layout;
  const column = Math.floor(x / step);
  if (column < 0 || column >= columns || y < 0) return null;
  const from = view.first + (Math.floor(y / step) * columns + column) * group;
  return from < Math.min(view.first + view.count, total) ? from : null;
}

function show(first: number, count: number): void {
  view.count = Math.min(Math.max(Math.round(count), Math.min(MIN_CELLS, total)), total);
  const { group } = layout;
  const aligned = Math.round(first / group) * group;
  view.first = Math.min(Math.max(aligned, 0), total - view.count);
  tip.hidden = true;
  draw();
}

// Zooms, and keeps the given cell in its place.
function zoom(factor: number, cell: number | null): void {
  const around = cell === null ? view.first + view.count / 2 : cell;
  const count = Math.min(Math.max(view.count * factor, MIN_CELLS), total);
  show(around - ((around - view.first) * count) / view.count, count);
}

function showTip(event: PointerEvent): void {
  const from = cellAt(event.offsetX, event.offsetY);
  tip.hidden = from === null;
  if (from === null) return;
  const { start, end, bytes, share } = sumOf(from, from + layout.group);
  const percent = bytes > 0 && share < 0.0001 ? 'under 0.01' : Number((share * 100).toFixed(2));
  tip.textContent = `at ${size(start)}, ${size(end - start)} long
bytes ${start} to ${end - 1}
${bytes} B ${word}, ${percent} %`;
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 4);
  const below = event.clientY + 14;
  const top = below + box.height > window.innerHeight ? event.clientY - box.height - 8 : below;
  tip.style.left = `${Math.max(left, 0)}px`;
  tip.style.top = `${Math.max(top, 0)}px`;
}

let drag: { x: number; y: number; first: number } | null = null;
grid.addEventListener('pointerdown', (event) => {
  drag = { x: event.clientX, y: event.clientY, first: view.first };
  grid.setPointerCapture(event.pointerId);
});
grid.addEventListener('pointerup', () => {
  drag = null;
});
grid.addEventListener('pointercancel', () => {
  drag = null;
});
grid.addEventListener('pointermove', (event) => {
  if (drag === null) {
    showTip(event);
    return;
  }
  const { columns, group, step } = layout;
  const cells = Math.round((event.clientY - drag.y) / step) * columns + Math.round((event.clientX - drag.x) / step);
  show(drag.first - cells * group, view.count);
});
grid.addEventListener('pointerleave', () => {
  tip.hidden = true;
});
grid.addEventListener(
  'wheel',
  (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.5 : 2, cellAt(event.offsetX, event.offsetY));
  },
  { passive: false },
);
overview.addEventListener('pointerdown', (event) => {
  show((event.offsetX / overview.clientWidth) * total - view.count / 2, view.count);
});

byId('in').addEventListener('click', () => zoom(0.5, null));
byId('out').addEventListener('click', () => zoom(2, null));
byId('whole').addEventListener('click', () => show(0, total));
const line = (): number => layout.columns * layout.group;
const KEYS: Readonly<Record<string, () => void>> = {
  '+': () => zoom(0.5, null),
  '=': () => zoom(0.5, null),
  '-': () => zoom(2, null),
  '0': () => show(0, total),
  ArrowLeft: () => show(view.first - layout.group, view.count),
  ArrowRight: () => show(view.first + layout.group, view.count),
  ArrowUp: () => show(view.first - line(), view.count),
  ArrowDown: () => show(view.first + line(), view.count),
  PageUp: () => show(view.first - view.count, view.count),
  PageDown: () => show(view.first + view.count, view.count),
  Home: () => show(0, view.count),
  End: () => show(total, view.count),
};
grid.addEventListener('keydown', (event) => {
  const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : KEYS[event.key];
  if (action === undefined) return;
  event.preventDefault();
  action();
});

window.addEventListener('resize', draw);
window.addEventListener('beforeprint', draw);
window.addEventListener('afterprint', draw);
for (const query of ['(prefers-color-scheme: dark)', 'print']) {
  window.matchMedia(query).addEventListener('change', draw);
}
draw();
grid.focus({ preventScroll: true });
