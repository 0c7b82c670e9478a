#!/usr/bin/env node
/** The command line: finds the command and says how it was misused. One file in cli/ per command. */
import { Command, CommanderError } from 'commander';
import { addAllocatedCommand } from './cli/allocated.js';
import { addConformanceCommand } from './cli/conformance.js';
import { addDeltaCommand } from './cli/delta.js';
import { ExitCode } from './cli/exit-codes.js';
import { addServeCommand } from './cli/serve.js';
import { addThinDeltaCommand } from './cli/thin-delta.js';
import { addThinLsCommand } from './cli/thin-ls.js';
import { packageVersion } from './version.js';

const program = new Command('blockdelta')
  .description('CSI plugin for node-local block storage that streams changed-block lists')
  .version(packageVersion())
  .showHelpAfterError('(add --help for what can be given)')
  // Commands inherit it. Commander would end with 1, which here means that something failed.
  .exitOverride();

addServeCommand(program);
addAllocatedCommand(program);
addDeltaCommand(program);
addThinDeltaCommand(program);
addThinLsCommand(program);
addConformanceCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  const isHelp = error.code === 'commander.helpDisplayed' || error.code === 'commander.version';
  process.exitCode = isHelp ? ExitCode.OK : ExitCode.USAGE;
}
