/** `blockdelta catalogue`: lets an operator inspect and confirm the effect of lost catalogue rows. */
import { join } from 'node:path';
import type { Command } from 'commander';
import { cell } from '../base/plain-text.js';
import { acceptLostChanges } from '../driver/catalogue/lost-changes.js';
import { catalogueDefinition } from '../driver/catalogue/sqlite-catalogue.js';
import { assertReadable } from '../driver/database/copy.js';
import { stateDirectoryOf } from '../driver/inspection/node-view.js';
import { withdrawClearance } from '../driver/volumes/staging-clearance.js';
import { confirmObjects, foundObjects, type UnknownObject } from '../driver/volumes/unknown-objects.js';
import { STATE_HELP } from './inspection/list-commands.js';
import { complain, print, runToExitCode } from './output.js';
import { parsePath } from './paths.js';

export function addCatalogueCommand(program: Command): void {
  const catalogue = program
    .command('catalogue')
    .description('list or confirm objects that are in a pool but not in the catalogue');
  catalogue
    .command('unknown')
    .description('list the unconfirmed objects that the last start found')
    .option('--state-dir <directory>', STATE_HELP, parsePath)
    .action(({ stateDir }) => run(stateDir, async (_, objects) => print(lines(objects))));
  catalogue
    .command('confirm')
    .description(
      'confirm that the plugin leaves these objects alone, or that the catalogue has lost changes; it accepts changes again after its next start',
    )
    .option('--state-dir <directory>', STATE_HELP, parsePath)
    .action(({ stateDir }) => run(stateDir, confirm));
}

async function run(
  given: string | undefined,
  work: (directory: string, objects: readonly UnknownObject[]) => Promise<void>,
): Promise<void> {
  process.exitCode = await runToExitCode(async () => {
    const directory = stateDirectoryOf(given);
    await assertReadable(catalogueDefinition(catalogueIn(directory)));
    await work(directory, await foundObjects(directory));
  });
}

async function confirm(directory: string, objects: readonly UnknownObject[]): Promise<void> {
  // What was lost may say that a volume is superseded. A router says so again before it clears this node.
  await withdrawClearance(directory);
  const lost = await acceptLostChanges(catalogueIn(directory));
  if (lost > 0n) {
    complain(`accepted that the catalogue has lost the last ${lost} changes; start the plugin`);
    return;
  }
  if (objects.length === 0) {
    complain(`no unknown objects to confirm in ${directory}`);
    return;
  }
  await confirmObjects(directory, objects);
  await print(lines(objects));
  complain(`confirmed ${objects.length} objects; restart the plugin`);
}

const catalogueIn = (directory: string): string => join(directory, 'catalogue.sqlite');

const lines = (objects: readonly UnknownObject[]): string =>
  objects.map(({ pool, id }) => `${cell(pool)} ${cell(id)}\n`).join('');
