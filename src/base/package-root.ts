/** Locates files that ship with the package (the addon, the proto), wherever the compiled code is. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

function findRoot(): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error(`no package.json above ${import.meta.url}`);
    directory = parent;
  }
  return directory;
}

const root = findRoot();

/** Absolute path of a file of this package, given relative to its top directory. */
export function packagePath(relative: string): string {
  return join(root, relative);
}
