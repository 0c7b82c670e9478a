/** Axes of charts: from figures to positions, and the ticks between. */

export interface Scale {
  /** The position of a figure, within the range that was given. */
  at(value: number): number;
  ticks: number[];
}

const MOST_TICKS = 6;

/** From zero, or from the lowest figure if one is negative. */
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

/** Decades around the figures, which must be above zero; those that are not stand at the lower end. */
export function logarithmic(values: readonly number[], from: number, to: number): Scale {
  const positive = values.filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...positive, 1e12)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...positive, 1e-12))));
  const [bottom, top] = positive.length === 0 ? [0, 1] : [low, high];
  const every = Math.ceil((top - bottom) / MOST_TICKS);
  const ticks: number[] = [];
  for (let decade = bottom; decade <= top; decade += every) ticks.push(10 ** decade);
  const at = (value: number): number => {
    const share = (Math.log10(Math.max(value, 10 ** bottom)) - bottom) / (top - bottom);
    return from + share * (to - from);
  };
  return { ticks, at };
}

/** 1, 2 or 5 times a power of ten, not below the given one. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5, 10].find((each) => each * power >= least * 0.999) ?? 10;
  return factor * power;
}

/** '200 k', '1.5 M', '0.02'. */
export function tickLabel(value: number): string {
  const magnitude = Math.abs(value);
  const [divisor, suffix] =
    magnitude >= 1e9
      ? [1e9, ' G']
      : magnitude >= 1e6
        ? [1e6, ' M']
        : magnitude >= 1e4
          ? [1e3, ' k']
          : [1, ''];
  return `${Number((value / divisor).toPrecision(3))}${suffix}`;
}
