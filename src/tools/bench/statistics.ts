/** Summarizes the figures of several rounds. */

export interface Spread {
  median: number;
  min: number;
  max: number;
}

/** Every field is NaN if there are no values. */
export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  return {
    median: quantileOf(sorted, 0.5),
    min: sorted[0] ?? Number.NaN,
    max: sorted.at(-1) ?? Number.NaN,
  };
}

/** Interpolates linearly between the two values next to the position; `share` is 0 to 1. NaN if there are no values. */
export function quantile(values: readonly number[], share: number): number {
  return quantileOf(
    [...values].sort((a, b) => a - b),
    share,
  );
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

function quantileOf(sorted: readonly number[], share: number): number {
  const position = share * (sorted.length - 1);
  const lower = sorted[Math.floor(position)] ?? Number.NaN;
  const upper = sorted[Math.ceil(position)] ?? Number.NaN;
  return lower + (upper - lower) * (position - Math.floor(position));
}
