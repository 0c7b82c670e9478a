/** `blockdelta catalogue`: what an operator decides about a catalogue that has lost rows. */
import type { Command } from 'commander';
import { SETTINGS } from '../config/config.js';
import { confirmObjects, foundObjects, type UnknownObject } from '../volumes/unknown-objects.js';
import { ExitCode } from './exit-codes.js';
import { complain, messageOf, print } from './output.js';

const STATE_HELP =
  'state directory of the plugin (default: BLOCKDELTA_STATE_DIR of the environment)';

export function addCatalogueCommand(program: Command): void {
  const catalogue = program
    .command('catalogue')
    .description('look at and confirm what the pools hold and the catalogue does not know');
  catalogue
    .command('unknown')
    .description('list the objects that the last start has found and nobody has confirmed')
    .option('--state-dir <directory>', STATE_HELP)
    .action(({ stateDir }) => run(stateDir, showUnknown));
  catalogue
    .command('confirm')
    .description(
      'confirm that these very objects are to be left alone; the plugin serves changes from its next start on',
    )
    .option('--state-dir <directory>', STATE_HELP)
    .action(({ stateDir }) => run(stateDir, confirm));
}

async function run(
  given: string | undefined,
  work: (directory: string, objects: readonly UnknownObject[]) => Promise<void>,
): Promise<void> {
  const directory =
    given ?? process.env['BLOCKDELTA_STATE_DIR'] ?? SETTINGS.BLOCKDELTA_STATE_DIR.fallback;
  try {
    await work(directory, await foundObjects(directory));
  } catch (error) {
    complain(messageOf(error));
    process.exitCode = ExitCode.FAILURE;
  }
}

async function showUnknown(_: string, objects: readonly UnknownObject[]): Promise<void> {
  await print(lines(objects));
}

async function confirm(directory: string, objects: readonly UnknownObject[]): Promise<void> {
  if (objects.length === 0) {
    complain(`there is nothing to confirm in ${directory}`);
    return;
  }
  await confirmObjects(directory, objects);
  await print(lines(objects));
  complain(`confirmed ${objects.length} objects; restart the plugin`);
}

const lines = (objects: readonly UnknownObject[]): string =>
  objects.map(({ pool, id }) => `${pool} ${id}\n`).join('');
