#!/usr/bin/env node
/** The command line: finds the command and says how it was misused. One file in cli/ per command. */
import { Command, CommanderError } from 'commander';
import { packageVersion } from './base/version.js';
import { ExitCode } from './cli/exit-codes.js';

type AddCommand = (program: Command) => void;

/** Loaded only when it is called for: what `serve` needs would take longer to load than a short list. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  serve: async () => (await import('./cli/serve.js')).addServeCommand,
  allocated: async () => (await import('./cli/metadata/allocated.js')).addAllocatedCommand,
  delta: async () => (await import('./cli/metadata/delta.js')).addDeltaCommand,
  'thin-delta': async () => (await import('./cli/thin/delta-command.js')).addThinDeltaCommand,
  'thin-ls': async () => (await import('./cli/thin/ls-command.js')).addThinLsCommand,
  catalogue: async () => (await import('./cli/catalogue.js')).addCatalogueCommand,
  conformance: async () => (await import('./cli/conformance.js')).addConformanceCommand,
};

const program = new Command('blockdelta')
  .description('CSI plugin for node-local block storage that streams changed-block lists')
  .version(packageVersion())
  .showHelpAfterError('(add --help for what can be given)')
  // Commands inherit it. Commander would end with 1, which here means that something failed.
  .exitOverride();

const name = process.argv[2] ?? '';
const named = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
for (const load of named === undefined ? Object.values(COMMANDS) : [named]) (await load())(program);

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  const isHelp = error.code === 'commander.helpDisplayed' || error.code === 'commander.version';
  process.exitCode = isHelp ? ExitCode.OK : ExitCode.USAGE;
}
