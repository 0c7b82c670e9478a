/** Sizes and other numbers as text for people. */

export function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

export function withHumanSize(bytes: bigint): string {
  return bytes < 1024n ? `${bytes} B` : `${bytes} (${humanSize(bytes)})`;
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/** With one decimal, or with `decimals` of them, but without trailing zeros: 512 B, 4 KiB, 1.5 GiB. */
export function humanSize(bytes: bigint, decimals = 1): string {
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${rounded(value, decimals)} ${UNITS[unit]}`;
}
