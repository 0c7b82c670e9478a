/**
 * Finds and loads native code: our own binaries, and packages that have some.
 *
 * Binaries that were compiled on this machine are in build/Release; those that came with the package are
 * in prebuilds/linux-ARCH. The install script (scripts/package/install.mjs) compiles where the latter do
 * not fit, so the former win. Neither node-gyp-build nor prebuild-install does this, because environment
 * variables of the caller decide which file they load.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { CsiError } from '../errors.js';
import { packagePath } from '../package-root.js';

const COMPILED = 'build/Release';
const require = createRequire(import.meta.url);

const REMEDY =
  'install blockdelta with the Node.js and on the kind of machine that run it, or compile it there: npm rebuild blockdelta';

/** Absolute path of one of our binaries: the addon or a program. */
export function binaryPath(name: string): string {
  const compiled = packagePath(`${COMPILED}/${name}`);
  return existsSync(compiled) ? compiled : packagePath(`prebuilds/linux-${process.arch}/${name}`);
}

/** Loads one of our addons into the calling thread. */
export function loadBinary(name: string): unknown {
  return load(binaryPath(name));
}

/** Loads a package with native code that it loads itself. */
export function loadPackage(name: string): unknown {
  return load(name);
}

function load(what: string): unknown {
  try {
    return require(what);
  } catch (thrown) {
    throw cannotLoad(what, thrown);
  }
}

/** An error that says what to do; its cause is what Node.js found. */
export function cannotLoad(what: string, thrown: unknown): CsiError {
  const found = String((thrown as Error).message).split('\n')[0];
  return CsiError.failedPrecondition(`${what} cannot be loaded (${found}): ${REMEDY}`, {
    cause: thrown,
  });
}
