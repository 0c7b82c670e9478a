/** The change lists that a pool stores, by the names of their files. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Paths of the lists to the snapshot. @param directory the pool's `lists` */
export function listsTo(directory: string, targetId: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory)
    .filter((name) => name.endsWith(`.to.${targetId}`))
    .map((name) => join(directory, name));
}
