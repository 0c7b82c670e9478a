/** Loads TypeScript sources into a script. */
import { rmSync } from 'node:fs';
import { build } from 'esbuild';

/**
 * @param {string} exports statements that export what the script needs, with paths from the top of the checkout
 * @returns {Promise<any>} the module that they make
 */
export async function loadSources(exports) {
  const root = new URL('../', import.meta.url);
  // Below the checkout, so that what it imports is found.
  const made = new URL(`.native-build/sources-${process.pid}.mjs`, root);
  await build({
    stdin: { contents: exports, resolveDir: root.pathname, loader: 'ts' },
    outfile: made.pathname,
    bundle: true,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'warning',
  });
  try {
    return await import(made);
  } finally {
    rmSync(made);
  }
}
