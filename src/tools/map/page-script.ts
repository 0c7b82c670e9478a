/**
 * The script of the page. It draws the cells on a canvas: each zoom level groups a power of two of them, and the sums
 * of groups come from prefix sums. Browsers run it as it stands, so it is plain JavaScript.
 */
export const PAGE_SCRIPT = `'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const { capacityBytes, cellBytes, word, levels } = data;
  const byId = (id) => document.getElementById(id);
  const grid = byId('grid');
  const overview = byId('overview');
  const tip = byId('tip');
  const STEP = 9;
  const MIN_CELLS = 32;

  /* before[i] is the sum of the cells before cell i. */
  let total = 0;
  for (let i = 1; i < data.runs.length; i += 2) total += data.runs[i];
  const before = new Float64Array(total + 1);
  let at = 0;
  for (let i = 0; i < data.runs.length; i += 2) {
    for (let n = data.runs[i + 1]; n > 0; n -= 1, at += 1) before[at + 1] = before[at] + data.runs[i];
  }

  /* What the grid shows: cells from first on, count of them. */
  const view = { first: 0, count: total };
  let layout = { columns: 1, rows: 1, group: 1, step: STEP };

  const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  function size(bytes) {
    let value = bytes;
    let unit = 0;
    while (value >= 1024 && unit < UNITS.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return Number(value.toFixed(2)) + ' ' + UNITS[unit];
  }

  const offsetOf = (cell) => Math.min(cell * cellBytes, capacityBytes);

  /* Of the cells from one to another, the latter not included. */
  function sumOf(from, to) {
    const last = Math.min(to, total);
    const start = offsetOf(from);
    const end = offsetOf(last);
    const bytes = before[last] - before[from];
    return { start, end, bytes, share: end > start ? bytes / (end - start) : 0 };
  }

  function levelOf(share) {
    const found = levels.findIndex(({ upTo }) => share <= upTo);
    return found < 0 ? levels.length - 1 : found;
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    return levels.map((_, level) => style.getPropertyValue('--l' + level));
  }

  /* A canvas with the pixels that the screen has, drawn in the units of the page. */
  function fit(canvas, width, height) {
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    return context;
  }

  function layOut() {
    const { clientWidth: width, clientHeight: height } = grid;
    const fits = (step) => Math.floor(width / step) * Math.floor(height / step);
    let group = 1;
    while (Math.ceil(view.count / group) > fits(STEP)) group *= 2;
    let step = STEP;
    while (step < 60 && fits(step + 1) >= Math.ceil(view.count / group)) step += 1;
    grid.dataset.step = step;
    layout = { columns: Math.floor(width / step), rows: Math.floor(height / step), group, step };
  }

  function draw() {
    if (total === 0) return;
    layOut();
    const palette = colours();
    const { columns, rows, group, step } = layout;
    const context = fit(grid, grid.clientWidth, grid.clientHeight);
    for (let index = 0; index < columns * rows; index += 1) {
      const from = view.first + index * group;
      if (from >= Math.min(view.first + view.count, total)) break;
      context.fillStyle = palette[levelOf(sumOf(from, from + group).share)];
      context.fillRect((index % columns) * step, Math.floor(index / columns) * step, step - 1, step - 1);
    }
    drawOverview(palette);
    const { start, end, bytes } = sumOf(view.first, view.first + view.count);
    byId('view').textContent = size(start) + ' to ' + size(end) + ': ' + size(bytes) + ' ' + word +
      '; one cell is ' + size(group * cellBytes);
  }

  /* The whole volume in one strip, with a frame around what the grid shows. */
  function drawOverview(palette) {
    const { clientWidth: width, clientHeight: height } = overview;
    const context = fit(overview, width, height);
    for (let x = 0; x < width; x += 1) {
      const from = Math.floor((x / width) * total);
      const to = Math.max(Math.floor(((x + 1) / width) * total), from + 1);
      context.fillStyle = palette[levelOf(sumOf(from, to).share)];
      context.fillRect(x, 0, 1, height);
    }
    if (view.count >= total) return;
    context.strokeStyle = getComputedStyle(document.body).color;
    context.lineWidth = 2;
    const frame = Math.max((view.count / total) * width, 4);
    context.strokeRect((view.first / total) * width + 1, 1, frame, height - 2);
  }

  function cellAt(x, y) {
    const { columns, group, step } = layout;
    const column = Math.floor(x / step);
    if (column < 0 || column >= columns || y < 0) return null;
    const from = view.first + (Math.floor(y / step) * columns + column) * group;
    return from < Math.min(view.first + view.count, total) ? from : null;
  }

  function show(first, count) {
    view.count = Math.min(Math.max(Math.round(count), Math.min(MIN_CELLS, total)), total);
    const { group } = layout;
    const aligned = Math.round(first / group) * group;
    view.first = Math.min(Math.max(aligned, 0), total - view.count);
    tip.hidden = true;
    draw();
  }

  /* Keeps the given cell where it is. */
  function zoom(factor, cell) {
    const around = cell === null ? view.first + view.count / 2 : cell;
    const count = Math.min(Math.max(view.count * factor, MIN_CELLS), total);
    show(around - ((around - view.first) * count) / view.count, count);
  }

  function showTip(event) {
    const from = cellAt(event.offsetX, event.offsetY);
    tip.hidden = from === null;
    if (from === null) return;
    const { start, end, bytes, share } = sumOf(from, from + layout.group);
    const percent = bytes > 0 && share < 0.0001 ? 'under 0.01' : Number((share * 100).toFixed(2));
    tip.textContent = 'at ' + size(start) + ', ' + size(end - start) + ' long\\n' +
      'bytes ' + start + ' to ' + (end - 1) + '\\n' +
      bytes + ' B ' + word + ', ' + percent + ' %';
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 4);
    const below = event.clientY + 14;
    const top = below + box.height > window.innerHeight ? event.clientY - box.height - 8 : below;
    tip.style.left = Math.max(left, 0) + 'px';
    tip.style.top = Math.max(top, 0) + 'px';
  }

  let drag = null;
  grid.addEventListener('pointerdown', (event) => {
    drag = { x: event.clientX, y: event.clientY, first: view.first };
    grid.setPointerCapture(event.pointerId);
  });
  grid.addEventListener('pointerup', () => { drag = null; });
  grid.addEventListener('pointercancel', () => { drag = null; });
  grid.addEventListener('pointermove', (event) => {
    if (drag === null) return showTip(event);
    const { columns, group, step } = layout;
    const cells = Math.round((event.clientY - drag.y) / step) * columns +
      Math.round((event.clientX - drag.x) / step);
    show(drag.first - cells * group, view.count);
  });
  grid.addEventListener('pointerleave', () => { tip.hidden = true; });
  grid.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.5 : 2, cellAt(event.offsetX, event.offsetY));
  }, { passive: false });
  overview.addEventListener('pointerdown', (event) => {
    show((event.offsetX / overview.clientWidth) * total - view.count / 2, view.count);
  });

  byId('in').addEventListener('click', () => zoom(0.5, null));
  byId('out').addEventListener('click', () => zoom(2, null));
  byId('whole').addEventListener('click', () => show(0, total));
  const line = () => layout.columns * layout.group;
  const KEYS = {
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
})();
`;
