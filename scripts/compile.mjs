/**
 * Compiles a TypeScript project, only what has changed since the last time, and removes the outputs of
 * sources that are gone.
 *
 *   node scripts/compile.mjs tsconfig.json          src to dist
 *   node scripts/compile.mjs test/tsconfig.json     src and test to .test-build
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** Directories of outputs by those of their sources. */
const OUTPUTS = {
  'tsconfig.json': { src: 'dist' },
  'test/tsconfig.json': { src: '.test-build/src', test: '.test-build/test' },
};
const STATE = { 'tsconfig.json': 'dist/.tsbuildinfo', 'test/tsconfig.json': '.test-build/.tsbuildinfo' };

const project = process.argv[2];
const outputs = OUTPUTS[project];
if (outputs === undefined) {
  console.error(`compile: ${project} is none of ${Object.keys(OUTPUTS).join(', ')}`);
  process.exit(2);
}
for (const [from, to] of Object.entries(outputs)) {
  const sources = new Set(filesBelow(from, /(?<!\.d)\.ts$/).map((path) => path.slice(0, -3)));
  const compiled = filesBelow(to, /\.js$/).map((path) => path.slice(0, -3));
  for (const path of compiled.filter((name) => !sources.has(name))) {
    for (const ending of ['.js', '.js.map']) rmSync(join(to, path + ending), { force: true });
  }
  // The compiler's record says what it has written, and does not notice that a file is missing.
  const present = new Set(compiled);
  if ([...sources].some((path) => !present.has(path))) rmSync(STATE[project], { force: true });
}
const { status } = spawnSync('node_modules/.bin/tsc', ['-p', project], { stdio: 'inherit' });
process.exit(status ?? 1);

function filesBelow(directory, ending) {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true }).filter((path) => ending.test(path));
}
