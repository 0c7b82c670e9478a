/** The version of this package, read from package.json. */
import { readFileSync } from 'node:fs';
import { packagePath } from './package-root.js';

export function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
