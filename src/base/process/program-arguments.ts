/**
 * The arguments of a program. exec.ts starts every program in `/`, where a relative path would name another file than it does
 * for the caller. So paths are marked, and a relative path is refused. If others may exchange the file at a path, the program
 * is given the open file instead.
 */
import type { FileHandle } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { CsiError } from '../errors.js';
import { at } from '../system/checked-files.js';

export type Argument = string | PathArgument | FileArgument;

export interface PathArgument {
  readonly path: string;
  /** The text before the path in the same argument, such as `file=`. */
  readonly prefix?: string;
}

/** An argument that names files which the program inherits open. */
export interface FileArgument {
  readonly files: readonly GivenFile[];
  /** @param names the names by which the program opens the files, in the order of `files` */
  word(names: readonly string[]): string;
}

export interface GivenFile {
  /** The path of the file, for messages. */
  readonly path: string;
  /** What the program may do: read the file, also write it, or make files and sockets in this directory. */
  readonly use: 'read' | 'write' | 'in';
  /** Called when the program starts. */
  open(): Promise<FileHandle>;
}

/** @param prefix the text before the file's name in the argument */
export const fileArgument = (file: GivenFile, prefix = '', suffix = ''): FileArgument => ({
  files: [file],
  word: ([name]) => prefix + name + suffix,
});

/** The words of a command line, and the files that the program has from descriptor `first` on. INTERNAL for a relative path. */
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
      return argument.word(argument.files.map((_, index) => at(from + index)));
    }
    const { path, prefix = '' } = argument;
    if (isAbsolute(path)) return `${prefix}${path}`;
    throw CsiError.internal(
      `${program} was not started, because it was given the relative path '${path}'; report this as a bug`,
    );
  });
  return { words, files };
}

/** Replaces the descriptor names in a text of a program by the paths of its files. */
export const withPaths = (text: string, files: readonly GivenFile[], first: number): string =>
  text.replace(/\/proc\/self\/fd\/(\d+)/g, (name, it) => files[Number(it) - first]?.path ?? name);
