/**
 * The native code that an installed blockdelta needs, and how a Node.js release is asked whether it can
 * load it. Shipped, because the install script needs it: imports nothing but Node.js.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const root = resolve(import.meta.dirname, '../..');

/** What node-gyp builds from our binding.gyp: an addon (Node-API, so one for all releases of Node.js) and two programs. */
export const OWN_BINARIES = ['blockdelta.node', 'blockdelta-confine', 'blockdelta-guardian'];

/** Directory of our prebuilt binaries for a processor, as src/base/system/binaries.ts looks it up. */
export const ownPrebuilds = (arch) => join(root, 'prebuilds', `linux-${arch}`);

/**
 * Packages whose addons use V8 itself, so that each release line of Node.js (`abi`: process.versions.modules)
 * needs a binary of its own. `bindings`, with which they load it, looks into lib/binding.
 */
export const BUNDLED = [
  { name: 'better-sqlite3', binary: 'better_sqlite3.node', use: "new (require('.'))(':memory:').close()" },
  { name: 'ioctl', binary: 'ioctl.node', use: "require('.')" },
].map((each) => ({
  ...each,
  directory: join(root, 'node_modules', each.name),
  prebuilt: (arch, abi) => join('lib', 'binding', `node-v${abi}-linux-${arch}`, each.binary),
}));

/**
 * Packed without what they ask for if it can be had: npm has installed that for this processor alone, and
 * an installation by a lock file fails where it is missing. piscina asks for a module that lowers the
 * priority of threads, which the plugin does not use.
 */
export const WITHOUT_OPTIONAL = ['piscina'].map((name) => ({
  name,
  directory: join(root, 'node_modules', name),
}));

/**
 * The binding.gyp of a packed copy. npm compiles whatever has a file of that name when it installs by a
 * lock file, because that does not tell it that the package has no install script.
 */
export const PACKED_GYP = 'compile.gyp';

/** Why this Node.js cannot use the code, or null. Asks another process, which a bad binary may end. */
export function problemOf(directory, use) {
  if (!existsSync(directory)) return `${directory} is missing`;
  const { status, signal, stderr } = spawnSync(process.execPath, ['-e', use], { cwd: directory, encoding: 'utf8' });
  if (status === 0) return null;
  const reason = /^\w*Error: .*$/m.exec(stderr)?.[0];
  return reason ?? (stderr.trim() || `it ended with ${signal ?? status}`);
}
