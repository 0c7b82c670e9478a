/** The version of this package, from package.json, so that it is written in one place. */
import { readFileSync } from 'node:fs';
import { packagePath } from './package-root.js';

export function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(packagePath('package.json'), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
