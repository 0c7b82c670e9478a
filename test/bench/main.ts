/** `scripts/bench`: the command `bench` with the suites of this directory and the table of speed. */
import { CommanderError } from 'commander';
import { benchCommand } from '../../src/cli/bench.js';
import { ExitCode } from '../../src/cli/exit-codes.js';
import { ALL_SUITES } from './suites/index.js';
import { SPEED_TABLE } from './targets.js';

const command = benchCommand({ suites: ALL_SUITES, table: SPEED_TABLE })
  .name('scripts/bench')
  .showHelpAfterError('(use --help for usage)')
  .exitOverride();
try {
  await command.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.code === 'commander.helpDisplayed' ? ExitCode.OK : ExitCode.USAGE;
}
