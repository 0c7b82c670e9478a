/**
 * Compiles TypeScript; `tsc` only checks its types (npm run types).
 *
 *   node scripts/compile.mjs program    src to dist
 *   node scripts/compile.mjs test       src and test to .test-build, a file for each, and the program that tests
 *                                       start to .test-build/program
 *
 * The program is a few files that contain the packages they use: reading each file by itself made a third of the
 * processor time of a start.
 */
import { readdirSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build } from 'esbuild';

/** The command line, and what its worker threads load by the name of a file beside the code that starts them. */
const ENTRIES = [
  'src/main.ts',
  'src/driver/native/worker.ts',
  'src/driver/catalogue/sqlite-catalogue.ts',
  'src/driver/backends/thin/ledger/sqlite-ledger.ts',
];
/** What runs in a browser, and is read as text by the file beside it. */
const PAGE_SCRIPTS = ['src/tools/map/page-script.ts'];
/** Have binaries or worker threads of their own. */
const NOT_WITHIN = ['better-sqlite3', 'ioctl', 'piscina'];
/** For packages that are CommonJS modules. */
const REQUIRE = `import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);`;

const SHARED = { format: 'esm', platform: 'node', target: 'node20', logLevel: 'warning', metafile: true };

const what = process.argv[2];
if (what === 'program') await compileProgram('dist', {});
else if (what === 'test') {
  await Promise.all([compileTests(), compileProgram('.test-build/program', { sourcemap: true })]);
} else {
  console.error('usage: compile.mjs program | compile.mjs test');
  process.exit(2);
}

async function compileProgram(outdir, options) {
  const bundle = { bundle: true, splitting: true, entryNames: '[name]', chunkNames: '[name]-[hash]' };
  const { metafile } = await build({
    ...SHARED,
    ...bundle,
    ...options,
    outdir,
    entryPoints: ENTRIES,
    external: NOT_WITHIN,
    banner: { js: REQUIRE },
    keepNames: true,
  });
  const pages = await compilePages({ outdir });
  removeOthers(outdir, [metafile, pages]);
}

/** Each with what it imports in it. */
async function compilePages(options) {
  const bundle = { bundle: true, format: 'iife', platform: 'browser', target: 'es2022' };
  const { metafile } = await build({ ...SHARED, ...bundle, ...options, entryPoints: PAGE_SCRIPTS });
  return metafile;
}

async function compileTests() {
  const sources = ['src', 'test'].flatMap((directory) => filesBelow(directory, /(?<!\.d)\.ts$/));
  const entryPoints = sources.filter((path) => !PAGE_SCRIPTS.includes(path));
  const { metafile } = await build({ ...SHARED, outdir: '.test-build', outbase: '.', entryPoints, sourcemap: true });
  const pages = await compilePages({ outdir: '.test-build', outbase: '.' });
  for (const directory of ['src', 'test']) removeOthers(join('.test-build', directory), [metafile, pages]);
}

/** What has been compiled from sources that are gone. */
function removeOthers(directory, metafiles) {
  const made = new Set(metafiles.flatMap(({ outputs }) => Object.keys(outputs)));
  const others = filesBelow(directory, /\.js(\.map)?$/).filter((path) => !made.has(relative('.', path)));
  for (const path of others) rmSync(path);
}

function filesBelow(directory, ending) {
  const names = readdirSync(directory, { recursive: true });
  return names.filter((name) => ending.test(name)).map((name) => join(directory, name));
}
