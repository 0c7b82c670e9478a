#!/usr/bin/env node
/** The command line: loads the command that is named and reports usage errors. The commands are in cli/. */
import { Command, CommanderError } from 'commander';
import { CsiError } from './base/errors.js';
import { packageVersion } from './base/version.js';
import { ExitCode } from './cli/exit-codes.js';

type AddCommand = (program: Command) => void;

/** Each command is loaded on use only: loading `serve` takes longer than printing a short list. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  serve: async () => (await import('./cli/serve.js')).addServeCommand,
  route: async () => (await import('./cli/route.js')).addRouteCommand,
  allocated: async () => (await import('./cli/metadata/commands.js')).addAllocatedCommand,
  delta: async () => (await import('./cli/metadata/commands.js')).addDeltaCommand,
  map: async () => (await import('./cli/map.js')).addMapCommand,
  nbd: async () => (await import('./cli/nbd.js')).addNbdCommand,
  backup: async () => (await import('./cli/backup/backup-command.js')).addBackupCommand,
  restore: async () => (await import('./cli/backup/restore-command.js')).addRestoreCommand,
  verify: async () => (await import('./cli/backup/verify-command.js')).addVerifyCommand,
  backups: async () => (await import('./cli/backup/list-command.js')).addBackupsCommand,
  prune: async () => (await import('./cli/backup/prune-command.js')).addPruneCommand,
  chain: async () => (await import('./cli/backup/chain-command.js')).addChainCommand,
  'thin-delta': async () => (await import('./cli/thin/delta-command.js')).addThinDeltaCommand,
  'thin-ls': async () => (await import('./cli/thin/ls-command.js')).addThinLsCommand,
  volumes: async () => (await import('./cli/inspection/list-commands.js')).addVolumesCommand,
  snapshots: async () => (await import('./cli/inspection/list-commands.js')).addSnapshotsCommand,
  pools: async () => (await import('./cli/inspection/list-commands.js')).addPoolsCommand,
  doctor: async () => (await import('./cli/inspection/doctor-command.js')).addDoctorCommand,
  gc: async () => (await import('./cli/inspection/gc-command.js')).addGcCommand,
  catalogue: async () => (await import('./cli/catalogue.js')).addCatalogueCommand,
  conformance: async () => (await import('./cli/conformance.js')).addConformanceCommand,
  bench: async () => (await import('./cli/bench.js')).addBenchCommand,
  completion: async () => (await import('./cli/completion.js')).completionCommand(loadOthers),
};

/** Adds every command that is not there. */
async function loadOthers(program: Command): Promise<void> {
  for (const [each, load] of Object.entries(COMMANDS)) {
    if (program.commands.every((command) => command.name() !== each)) (await load())(program);
  }
}

const program = new Command('blockdelta')
  .description('CSI plugin for node-local block storage that streams changed-block lists')
  .version(packageVersion())
  .showHelpAfterError('(use --help for usage)')
  // Commands inherit this. Commander exits with 1 on wrong usage; here 1 means a failure.
  .exitOverride();

const name = process.argv[2] ?? '';
const named = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
try {
  for (const load of named === undefined ? Object.values(COMMANDS) : [named]) {
    (await load())(program);
  }
  await program.parseAsync();
} catch (error) {
  // Native code that cannot be loaded, for one.
  if (error instanceof CsiError) {
    process.stderr.write(`blockdelta: ${error.message}\n`);
    process.exit(ExitCode.FAILURE);
  }
  if (!(error instanceof CommanderError)) throw error;
  const isHelp = error.code === 'commander.helpDisplayed' || error.code === 'commander.version';
  process.exitCode = isHelp ? ExitCode.OK : ExitCode.USAGE;
}
