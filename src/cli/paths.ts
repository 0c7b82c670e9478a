/**
 * Parsers of options and arguments that are paths: the one place where they become absolute. Behind it nothing
 * depends on the working directory, which programs that are started do not share.
 */
import { resolve } from 'node:path';
import { InvalidArgumentError } from 'commander';

export function parsePath(value: string): string {
  if (value === '') throw new InvalidArgumentError('It must be a path.');
  return resolve(value);
}

/** `-` stays: it means stdout. */
export function parseOutput(value: string): string {
  return value === '-' ? value : parsePath(value);
}
