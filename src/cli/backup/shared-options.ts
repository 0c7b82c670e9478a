/** The options that several commands about backups have. */
import { type Command, InvalidArgumentError } from 'commander';

export const ENDPOINT_HELP = "the driver's socket, unix:///path (default: CSI_ENDPOINT)";

export function addChoice(command: Command): Command {
  return command
    .option('--volume <id>', 'the volume whose backups are meant', '')
    .option('--snapshot <id>', 'the snapshot whose backup is meant (default: the newest)', '');
}

/** Adds the option of every command that opens a directory of backups. */
export function addAccess(command: Command): Command {
  return command.option('--allow-shared', 'trust all who can write to the directory', false);
}

export function parseCount(value: string): number {
  if (/^\d{1,6}$/.test(value)) return Number(value);
  throw new InvalidArgumentError('It must be a whole number.');
}
