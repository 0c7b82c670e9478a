/**
 * Runs nbdkit, nbdcopy, qemu-nbd and qemu-img with the rights that a backup gives them: no capabilities, except that QEMU's
 * programs may read other users' files, and no file but those of the arguments. Knows no program's arguments.
 */
import * as base from '../../base/process/program.js';
import type { Argument } from '../../base/process/program-arguments.js';
import type { Rights } from '../../base/process/sandbox.js';

export type ProgramName = 'nbdkit' | 'nbdcopy' | 'qemu-nbd' | 'qemu-img';

/** The programs that read images. Root may use the images of another user. */
const READERS: readonly ProgramName[] = ['qemu-nbd', 'qemu-img'];

const rightsOf = (name: ProgramName): Rights => ({ readsAll: READERS.includes(name), opensGiven: true });

export function startProgram(
  name: ProgramName,
  args: readonly Argument[],
  signal?: AbortSignal,
): Promise<base.Program> {
  return base.Program.start(name, args, { rights: rightsOf(name), signal });
}

/** Runs a program to its end. Rejects with the signal's reason, FAILED_PRECONDITION or ExecError. */
export function runProgram(
  name: ProgramName,
  args: readonly Argument[],
  options: Omit<base.RunOptions, 'rights'>,
): Promise<base.ProgramResult> {
  return base.runProgram(name, args, { ...options, rights: rightsOf(name) });
}
