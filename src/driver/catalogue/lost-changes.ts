/** An operator's word that a catalogue which has lost changes is to be used as it is. */
import { existsSync } from 'node:fs';
import { acceptLoss } from '../database/sound-database.js';
import { catalogueOwner, lockCatalogue } from './lock.js';
import { catalogueDefinition } from './sqlite-catalogue.js';

/** Resolves to how many; 0: none are lost, as in a catalogue that a plugin serves. */
export async function acceptLostChanges(file: string): Promise<bigint> {
  if (!existsSync(file) || (await catalogueOwner(file)) !== null) return 0n;
  const lock = await lockCatalogue(file);
  try {
    return acceptLoss(catalogueDefinition(file));
  } finally {
    await lock.release();
  }
}
