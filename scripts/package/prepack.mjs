/**
 * What `npm pack` runs before it packs: builds the checkout, the binaries and the man pages, installing what is
 * missing, and puts them where the package has them. postpack.mjs undoes what a checkout does not need.
 *
 *   BLOCKDELTA_PREBUILD=host npm pack     only for this processor and this release of Node.js: seconds
 *
 * All dependencies are packed along (bundleDependencies), as the lock file has them. npm would compile
 * two of them wherever it installs them, so their packed copies have binaries, no install script and no
 * binding.gyp of that name; the sources stay, for a machine that none of the binaries fits.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { bundledBinary, ownBinaries } from './binaries.mjs';
import { BUNDLED, OWN_BINARIES, ownPrebuilds, PACKED_GYP, root, WITHOUT_OPTIONAL } from './modules.mjs';
import { restoreCheckout, SAVED } from './postpack.mjs';
import { hostTarget, targets } from './targets.mjs';

process.chdir(root);
const started = performance.now();
// A pack that was interrupted.
restoreCheckout();
// Options of this `npm pack` are not for the npm commands below.
for (const name of ['npm_config_dry_run', 'npm_config_json', 'npm_config_pack_destination']) delete process.env[name];
const { archs, releases } = targets(process.env.BLOCKDELTA_PREBUILD ?? 'all');
execFileSync('scripts/setup', { stdio: 'inherit' });
if (archs.some((arch) => arch !== hostTarget().arch)) execFileSync('scripts/setup', ['--cross'], { stdio: 'inherit' });
// Needs node_modules, as the set-up leaves them.
const { writeManPages } = await import('./man.mjs');
await writeManPages(join(root, 'man'));
for (const arch of archs) {
  mkdirSync(ownPrebuilds(arch), { recursive: true });
  const built = ownBinaries(arch);
  for (const name of OWN_BINARIES) cpSync(join(built, name), join(ownPrebuilds(arch), name));
}
for (const each of BUNDLED) {
  const binaries = archs.flatMap((arch) => releases.map((release) => [arch, release]));
  const files = binaries.map(([arch, release]) => [
    each.prebuilt(arch, release.abi),
    bundledBinary(each, arch, release),
  ]);
  preparePackage(each, files);
}
for (const each of WITHOUT_OPTIONAL) editManifest(each, (manifest) => delete manifest.optionalDependencies);
console.error(`prepack: ${describe()} in ${((performance.now() - started) / 1000).toFixed(1)} s`);

/** Turns an installed package into the one to pack. `files`: path in the package, file. */
function preparePackage({ name, directory }, files) {
  for (const [path, file] of files) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    cpSync(file, join(directory, path));
  }
  // `bindings` looks there first.
  const saved = savedDirectory(name);
  if (existsSync(join(directory, 'build'))) renameSync(join(directory, 'build'), join(saved, 'build'));
  cpSync(join(directory, 'binding.gyp'), join(saved, 'binding.gyp'));
  renameSync(join(directory, 'binding.gyp'), join(directory, PACKED_GYP));
  editManifest({ name, directory }, (manifest) => {
    delete manifest.scripts;
    delete manifest.dependencies['prebuild-install'];
    manifest.gypfile = false;
  });
}

function editManifest({ name, directory }, edit) {
  const path = join(directory, 'package.json');
  cpSync(path, join(savedDirectory(name), 'package.json'));
  const manifest = JSON.parse(readFileSync(path, 'utf8'));
  edit(manifest);
  // Never in place: in a copy of a checkout, the file may be a link to the original.
  writeFileSync(`${path}.new`, `${JSON.stringify(manifest, null, 2)}\n`);
  renameSync(`${path}.new`, path);
}

function savedDirectory(name) {
  const saved = join(SAVED, name);
  mkdirSync(saved, { recursive: true });
  return saved;
}

function describe() {
  const nodes = releases.map(({ major }) => major).join(', ');
  return `binaries for ${archs.join(' and ')}, Node.js ${nodes}`;
}
