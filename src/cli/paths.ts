/**
 * Parsers of options and arguments that are paths: the only place where paths become absolute. No other code depends
 * on the working directory, which the programs that a command starts do not share.
 */
import { resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';

export function parsePath(value: string): string {
  if (value === '') throw new InvalidArgumentError('It must be a path.');
  return resolve(value);
}

/** Returns `-` unchanged, because it means stdout. */
export function parseOutput(value: string): string {
  return value === '-' ? value : parsePath(value);
}
