/** Parsers for option values: pairs, sizes and counts. */
import { InvalidArgumentError } from 'commander';

export function addPair(value: string, before: Readonly<Record<string, string>>) {
  const at = value.indexOf('=');
  if (at < 1) throw new InvalidArgumentError('It must be like key=value.');
  return { ...before, [value.slice(0, at)]: value.slice(at + 1) };
}

const UNITS: Readonly<Record<string, number>> = { '': 1, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 };

export function parseSize(value: string): number {
  const [, number = '', unit = ''] = /^(\d{1,15})(Ki|Mi|Gi)?$/.exec(value) ?? [];
  const bytes = Number(number) * (UNITS[unit] ?? 1);
  if (bytes > 0 && Number.isSafeInteger(bytes)) return bytes;
  throw new InvalidArgumentError('It must be a whole number of bytes, or like 64Mi.');
}

/** A seed, as runs print them. */
export function parseSeed(value: string): number {
  const number = /^\d{1,10}$/.test(value) ? Number(value) : 0;
  if (number > 0 && number < 2 ** 31) return number;
  throw new InvalidArgumentError('It must be a whole number from 1 to 2147483647.');
}

export function parsePositive(value: string): number {
  const number = /^\d{1,9}$/.test(value) ? Number(value) : 0;
  if (number > 0) return number;
  throw new InvalidArgumentError('It must be a whole number above 0.');
}
