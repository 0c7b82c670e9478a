#!/usr/bin/env node
/** The command line: loads the command that is named and reports usage errors. cli/program.ts has the commands. */
import { CommanderError } from 'commander';
import { CsiError } from './base/errors.js';
import { ExitCode } from './cli/exit-codes.js';
import { loadProgram, withWordsAsOptions } from './cli/program.js';

// An 'error' event without a listener would end the process. print() handles failed writes of lists; help and messages
// that nobody reads must not change the exit code.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

try {
  const words = process.argv.slice(2);
  const program = await loadProgram(words.find((word) => word !== 'help') ?? null);
  await program.parseAsync(withWordsAsOptions(program, words), { from: 'user' });
} catch (error) {
  // For example, native code cannot be loaded.
  if (error instanceof CsiError) {
    process.stderr.write(`blockdelta: ${error.message}\n`);
    process.exit(ExitCode.FAILURE);
  }
  if (!(error instanceof CommanderError)) throw error;
  const isHelp = error.code === 'commander.helpDisplayed' || error.code === 'commander.version';
  process.exitCode = isHelp ? ExitCode.OK : ExitCode.USAGE;
}
