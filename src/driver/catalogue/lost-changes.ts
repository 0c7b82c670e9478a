/** Lets an operator accept a catalogue that has lost changes, so that the plugin uses the catalogue as it is. */
import { existsSync } from 'node:fs';
import { acceptLoss } from '../database/sound-database.js';
import { catalogueOwner, lockCatalogue } from './lock.js';
import { catalogueDefinition, forgetPulls } from './sqlite-catalogue.js';

/** Resolves to the number of lost changes; 0 if none are lost, if the file does not exist, or if the catalogue has an owner. */
export async function acceptLostChanges(file: string): Promise<bigint> {
  if (!existsSync(file) || (await catalogueOwner(file)) !== null) return 0n;
  const lock = await lockCatalogue(file);
  try {
    const lost = acceptLoss(catalogueDefinition(file));
    if (lost > 0n) forgetPulls(file);
    return lost;
  } finally {
    await lock.release();
  }
}
