/**
 * The arguments of a program. The runners start every program in `/`, so a relative path would name another file
 * there than it does for their caller: paths are marked, and a relative one is refused. Where others may exchange what
 * a path leads to, a program is given the open file instead.
 */
import type { FileHandle } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { CsiError } from '../errors.js';

export type Argument = string | PathArgument | FileArgument;

export interface PathArgument {
  readonly path: string;
  /** What stands before it in the same argument, such as `file=`. */
  readonly prefix?: string;
}

/** An argument about files that the program inherits open. */
export interface FileArgument {
  readonly files: readonly GivenFile[];
  /** @param names those by which the program opens the files, in their order */
  word(names: readonly string[]): string;
}

export interface GivenFile {
  /** For people. */
  readonly path: string;
  /** What the program may do: read it, also write it, or make files and sockets in this directory. */
  readonly use: 'read' | 'write' | 'in';
  /** Called when the program starts. */
  open(): Promise<FileHandle>;
}

/** @param prefix what stands before the file's name in the argument */
export const fileArgument = (file: GivenFile, prefix = '', suffix = ''): FileArgument => ({
  files: [file],
  word: ([name]) => prefix + name + suffix,
});

/** The words of a command line, and the files that the program has from `first` on. INTERNAL if a path is relative. */
export function commandLine(
  program: string,
  args: readonly Argument[],
  first: number,
): { words: string[]; files: GivenFile[] } {
  const files: GivenFile[] = [];
  const words = args.map((argument) => {
    if (typeof argument === 'string') return argument;
    if ('files' in argument) {
      const from = first + files.length;
      files.push(...argument.files);
      return argument.word(argument.files.map((_, index) => descriptorName(from + index)));
    }
    const { path, prefix = '' } = argument;
    if (isAbsolute(path)) return `${prefix}${path}`;
    throw CsiError.internal(
      `${program} was not started, because it was given the relative path '${path}'; report this as a bug`,
    );
  });
  return { words, files };
}

/** The text of a program with the paths of its files. */
export const withPaths = (text: string, files: readonly GivenFile[], first: number): string =>
  text.replace(/\/proc\/self\/fd\/(\d+)/g, (name, it) => files[Number(it) - first]?.path ?? name);

/** By which a process opens what it has open once more, whatever happened to its path. */
export const descriptorName = (descriptor: number): string => `/proc/self/fd/${descriptor}`;
