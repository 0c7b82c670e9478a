/**
 * What `npm pack` runs after it has packed: puts back what prepack.mjs changed in the checkout. What it
 * built remains in .native-build for the next time.
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { BUNDLED, PACKED_GYP, root, WITHOUT_OPTIONAL } from './modules.mjs';

/** What prepack.mjs took out of packages in node_modules, by the package's name. */
export const SAVED = join(root, '.native-build/package/saved');

/** Does nothing where there is nothing to put back. */
export function restoreCheckout() {
  for (const name of ['prebuilds', 'man']) rmSync(join(root, name), { recursive: true, force: true });
  for (const { name, directory } of [...BUNDLED, ...WITHOUT_OPTIONAL]) {
    const saved = join(SAVED, name);
    if (!existsSync(saved)) continue;
    // `npm ci` may have come in between, with files of its own.
    for (const entry of existsSync(directory) ? readdirSync(saved) : []) {
      rmSync(join(directory, entry), { recursive: true, force: true });
      renameSync(join(saved, entry), join(directory, entry));
    }
    rmSync(join(directory, PACKED_GYP), { force: true });
    rmSync(join(directory, 'lib/binding'), { recursive: true, force: true });
    rmSync(saved, { recursive: true });
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) restoreCheckout();
