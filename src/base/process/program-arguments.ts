/**
 * The arguments of a program. The runners start every program in `/`, so a relative path would name another file
 * there than it does for their caller: paths are marked, and a relative one is refused.
 */
import { isAbsolute } from 'node:path';
import { CsiError } from '../errors.js';

export type Argument = string | PathArgument;

export interface PathArgument {
  readonly path: string;
  /** What stands before it in the same argument, such as `file=`. */
  readonly prefix?: string;
}

/** INTERNAL if a path is relative. */
export function argumentWords(program: string, args: readonly Argument[]): string[] {
  return args.map((argument) => {
    if (typeof argument === 'string') return argument;
    const { path, prefix = '' } = argument;
    if (isAbsolute(path)) return `${prefix}${path}`;
    throw CsiError.internal(
      `${program} was not started, because it was given the relative path '${path}'; report this as a bug`,
    );
  });
}
