/** Axes of charts: map figures to positions, and place the ticks. */

export interface Scale {
  /** The position of a figure, within the range that was given. */
  at(value: number): number;
  ticks: number[];
}

const MOST_TICKS = 6;
const STEPS = [1, 2, 5];
/** A tolerance, because powers of ten are not exact below 1. With a larger tolerance, figures would leave the range. */
const CLOSE = 1 + 1e-9;

/** A linear scale from zero, or from the lowest figure if a figure is negative. */
export function linear(values: readonly number[], from: number, to: number): Scale {
  const high = Math.max(0, ...values) || 1;
  const low = Math.min(0, ...values);
  const step = niceStep((high - low) / (MOST_TICKS - 1));
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step);
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  const [bottom, top] = [first * step, last * step];
  return { ticks, at: (value) => from + ((value - bottom) / (top - bottom)) * (to - from) };
}

/** A logarithmic scale. Both ends are 1, 2 or 5 times a power of ten; figures of zero or less stand at the lower end. */
export function logarithmic(values: readonly number[], from: number, to: number): Scale {
  const positive = values.filter((value) => value > 0);
  if (positive.length === 0) positive.push(1);
  const least = Math.min(...positive);
  // The largest step that is not above the least figure.
  const bottom = STEPS.map((step) => step * 10 ** Math.floor(Math.log10(least)))
    .filter((step) => step <= least * CLOSE)
    .at(-1) as number;
  const top = Math.max(niceStep(Math.max(...positive)), niceStep(bottom * 2));
  const decades = Math.log10(top / bottom);
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(bottom)); power <= Math.log10(top) + 1; power += 1) {
    for (const step of decades > 3 ? [1] : STEPS) ticks.push(step * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= bottom / CLOSE && tick <= top * CLOSE);
  const at = (value: number): number => from + (Math.log10(Math.max(value, bottom) / bottom) / decades) * (to - from);
  return { ticks: inside, at };
}

/** Returns the smallest 1, 2 or 5 times a power of ten that is not below `least`. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least / CLOSE) ?? 10;
  return factor * power;
}

/** '200 k', '1.5 M', '0.02'. */
export function tickLabel(value: number): string {
  const magnitude = Math.abs(value);
  if (Number.isInteger(value) && magnitude < 1e4) return String(value);
  const [divisor, suffix] =
    magnitude >= 1e9 ? [1e9, ' G'] : magnitude >= 1e6 ? [1e6, ' M'] : magnitude >= 1e4 ? [1e3, ' k'] : [1, ''];
  return `${Number((value / divisor).toPrecision(3))}${suffix}`;
}
