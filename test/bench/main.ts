/** `scripts/bench`: the command `bench` with the suites of this directory and the table of speed. */
import { Command, CommanderError } from 'commander';
import { addBench } from '../../src/cli/bench.js';
import { ExitCode } from '../../src/cli/exit-codes.js';
import { PROGRAM } from '../support/program.js';
import { ALL_SUITES } from './suites/index.js';
import { SPEED_TABLE } from './targets.js';

const program = new Command('scripts').showHelpAfterError('(use --help for usage)').exitOverride();
addBench(program, { program: PROGRAM, suites: ALL_SUITES, table: SPEED_TABLE });
try {
  await program.parseAsync(['bench', ...process.argv.slice(2)], { from: 'user' });
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.code === 'commander.helpDisplayed' ? ExitCode.OK : ExitCode.USAGE;
}
