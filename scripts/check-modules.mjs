/** Exits 0 if node_modules holds the versions of package-lock.json, built for this Node.js. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const packages = (path) => JSON.parse(readFileSync(path, 'utf8')).packages;
try {
  const wanted = packages('package-lock.json');
  const installed = packages('node_modules/.package-lock.json');
  const isThere = ([path, { version, optional }]) =>
    path === '' || optional === true || installed[path]?.version === version;
  if (!Object.entries(wanted).every(isThere)) process.exit(1);
  const Database = createRequire(import.meta.url)('better-sqlite3');
  new Database(':memory:').close();
} catch {
  process.exit(1);
}
