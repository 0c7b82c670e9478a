/**
 * All commands, grouped by who needs them. `--help`, the completion, the man pages and docs/command-line.md show
 * the groups in this order.
 */
import { Command, Help, type Option } from 'commander';
import { packageVersion } from '../base/version.js';

type AddCommand = (program: Command) => void;

/** A command is loaded only when it is used: loading `serve` takes longer than printing a short list. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, () => Promise<AddCommand>>>>> = {
  'The plugin': {
    serve: async () => (await import('./serve.js')).addServeCommand,
    route: async () => (await import('./route.js')).addRouteCommand,
    cordon: async () => (await import('./successions.js')).addCordonCommand,
    supersede: async () => (await import('./successions.js')).addSupersedeCommand,
  },
  'Changed-block lists': {
    allocated: async () => (await import('./metadata/commands.js')).addAllocatedCommand,
    delta: async () => (await import('./metadata/commands.js')).addDeltaCommand,
    map: async () => (await import('./map.js')).addMapCommand,
    nbd: async () => (await import('./nbd.js')).addNbdCommand,
    'thin-delta': async () => (await import('./thin/delta-command.js')).addThinDeltaCommand,
    'thin-ls': async () => (await import('./thin/ls-command.js')).addThinLsCommand,
  },
  Backups: {
    backup: async () => (await import('./backup/backup-command.js')).addBackupCommand,
    restore: async () => (await import('./backup/restore-command.js')).addRestoreCommand,
    verify: async () => (await import('./backup/verify-command.js')).addVerifyCommand,
    backups: async () => (await import('./backup/backups-command.js')).addBackupsCommand,
    prune: async () => (await import('./backup/prune-command.js')).addPruneCommand,
    compact: async () => (await import('./backup/compact-command.js')).addCompactCommand,
    chain: async () => (await import('./backup/chain-command.js')).addChainCommand,
  },
  'Inspection and repair of a node': {
    volumes: async () => (await import('./inspection/list-commands.js')).addVolumesCommand,
    snapshots: async () => (await import('./inspection/list-commands.js')).addSnapshotsCommand,
    replicas: async () => (await import('./inspection/list-commands.js')).addReplicasCommand,
    pools: async () => (await import('./inspection/list-commands.js')).addPoolsCommand,
    doctor: async () => (await import('./inspection/doctor-command.js')).addDoctorCommand,
    gc: async () => (await import('./inspection/gc-command.js')).addGcCommand,
    catalogue: async () => (await import('./catalogue.js')).addCatalogueCommand,
  },
  'Testing and measuring drivers': {
    conformance: async () => (await import('./conformance.js')).addConformanceCommand,
    bench: async () => (await import('./bench.js')).addBenchCommand,
  },
  'Help in the shell': {
    completion: async () => (await import('./completion.js')).completionCommand(loadOthers),
  },
};

function withoutEmptyDefault(option: Option): Option {
  const { defaultValue } = option;
  const isEmpty =
    defaultValue === '' ||
    defaultValue === false ||
    (typeof defaultValue === 'object' && Object.keys(defaultValue ?? {}).length === 0);
  return isEmpty ? Object.assign(Object.create(option), { defaultValue: undefined }) : option;
}

/** @param name the only command to load; all commands are loaded if no command has this name */
export async function loadProgram(name: string | null): Promise<Command> {
  const program = new Command('blockdelta')
    .description('CSI plugin for node-local block storage that streams changed-block lists')
    .version(packageVersion())
    .showHelpAfterError('(use --help for usage)')
    // Commands inherit this. Commander would print a default that is empty, such as (default: {}).
    .configureHelp({ optionDescription: (option) => new Help().optionDescription(withoutEmptyDefault(option)) })
    // Commands inherit this: `replicas` and `replicas delete` each have an --endpoint.
    .enablePositionalOptions()
    // Commands inherit this. Commander exits with 1 on wrong usage; here 1 means a failure.
    .exitOverride();
  const isKnown = Object.values(GROUPS).some((group) => Object.hasOwn(group, name ?? ''));
  await load(program, (each) => !isKnown || each === name);
  // Commander puts its own `help` into the current group, which is the last one.
  return program.helpCommand(true);
}

/**
 * What other programs take as words, as the options of this one, which are no errors: `version` and `-v` as --version,
 * `help COMMAND` and `COMMAND help SUBCOMMAND` as --help. If there is no such command, the words without `help`: then they
 * are the error.
 */
export function withWordsAsOptions(program: Command, words: readonly string[]): string[] {
  if (words.length === 1 && ['version', '-v'].includes(words[0] ?? '')) return ['--version'];
  const at = words.indexOf('help');
  const named = ({ commands }: Command, name = ''): Command | undefined =>
    commands.find((each) => each.name() === name);
  const outer = at === 1 ? named(program, words[0]) : program;
  if (at < 0 || at > 1 || outer === undefined || outer.commands.length === 0) return [...words];
  const [inner, ...others] = words.slice(at + 1);
  const before = words.slice(0, at);
  if (inner === undefined) return [...before, '--help'];
  return [...before, inner, ...others, ...(named(outer, inner) === undefined ? [] : ['--help'])];
}

const loadOthers = (program: Command): Promise<void> =>
  load(program, (name) => program.commands.every((command) => command.name() !== name));

async function load(program: Command, isWanted: (name: string) => boolean): Promise<void> {
  for (const [heading, commands] of Object.entries(GROUPS)) {
    program.commandsGroup(`${heading}:`);
    for (const [name, loadCommand] of Object.entries(commands)) {
      if (isWanted(name)) (await loadCommand())(program);
    }
  }
}
