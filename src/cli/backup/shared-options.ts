/** The options that several commands about backups have. */
import { homedir } from 'node:os';
import { join } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { DirectoryRepository } from '../../tools/backup/directory-repository.js';
import { isRemote, remoteProblem } from '../../tools/backup/rclone.js';
import { RemoteRepository } from '../../tools/backup/remote-repository.js';
import type { Repository } from '../../tools/backup/repository.js';
import { parsePath } from '../paths.js';
import { openRuntimeDirectory } from '../runtime-directory.js';

export const ENDPOINT_HELP = "the driver's socket, unix:///path (default: CSI_ENDPOINT)";
export const JSON_HELP = 'print one JSON value, with sizes as strings';
export const REPOSITORY_HELP = 'the place of the backups: a directory, or rclone:REMOTE:PATH';
export const VOLUME_HELP = 'only the backups of this volume';

export function addChoice(command: Command): Command {
  return command
    .option('--volume <id>', 'the volume whose backups are meant (default: the only one)', '')
    .option('--snapshot <id>', 'the snapshot whose backup is meant (default: the newest)', '');
}

/** The options of a command that opens a repository. */
export interface AccessOptions {
  allowShared: boolean;
  spool?: string;
}

/** Adds the option of every command that opens a repository. */
export function addAccess(command: Command): Command {
  return command.option('--allow-shared', 'trust all who can write to the directory, or above it', false);
}

/** Adds the option of commands that make images. */
export function addSpool(command: Command): Command {
  const path = '~/.cache/blockdelta';
  return command.addOption(
    new Option('--spool <directory>', `where the images for a remote are made (default: ${path})`).argParser(parsePath),
  );
}

/** Where images for a remote are made, and copies of its manifests are kept. */
const defaultSpool = (): string => join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'blockdelta');

/** Parses the place of a repository: a directory, or rclone:REMOTE:PATH. */
export function parseRepository(value: string): string {
  if (!isRemote(value)) return parsePath(value);
  const problem = remoteProblem(value);
  if (problem === null) return value;
  throw new InvalidArgumentError(`It is no repository: ${problem}.`);
}

interface OpenOptions extends AccessOptions {
  create?: boolean;
  /** As of RemoteAccess. */
  readsAll?: boolean;
}

/** Opens a repository for as long as `work` takes. */
export async function withRepository(
  location: string,
  { allowShared, spool = defaultSpool(), create = false, readsAll = false }: OpenOptions,
  signal: AbortSignal,
  work: (repository: Repository) => Promise<void>,
): Promise<void> {
  const repository = isRemote(location)
    ? await RemoteRepository.open(location, { spool, readsAll, runtime: await openRuntimeDirectory(), signal })
    : await DirectoryRepository.open(location, { allowShared, create });
  try {
    await work(repository);
  } finally {
    await repository.close();
  }
}

/** What a usage error adds when a path follows the arguments, and --to is missing. */
export function suggestTo(command: Command): Command {
  return command.configureOutput({
    outputError: (text, write) => {
      const path = command.args[command.registeredArguments.length];
      const isMeant = path?.includes('/') && command.getOptionValue('to') === undefined;
      write(isMeant ? `${text.trimEnd()}: did you mean --to ${path}?\n` : text);
    },
  });
}

export function parseCount(value: string): number {
  if (/^\d{1,6}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It must be a whole number.');
}
