/** The options that several commands about backups have. */
import { type Command, InvalidArgumentError } from 'commander';

export const ENDPOINT_HELP = "the driver's socket, unix:///path (default: CSI_ENDPOINT)";
export const JSON_HELP = 'print one JSON value, with sizes as strings';
export const VOLUME_HELP = 'only the backups of this volume';

export function addChoice(command: Command): Command {
  return command
    .option('--volume <id>', 'the volume whose backups are meant (default: the only one)', '')
    .option('--snapshot <id>', 'the snapshot whose backup is meant (default: the newest)', '');
}

/** Adds the option of every command that opens a directory of backups. */
export function addAccess(command: Command): Command {
  return command.option('--allow-shared', 'trust all who can write to the directory, or above it', false);
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
