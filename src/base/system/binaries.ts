/**
 * Finds and loads native code: our own binaries, and packages with native code.
 *
 * Binaries that were compiled on this machine are in build/Release; binaries that came with the package are in
 * prebuilds/linux-ARCH. The install script (scripts/package/install.mjs) compiles where the prebuilt binaries do not fit, so
 * compiled binaries win. Neither node-gyp-build nor prebuild-install is used, because environment variables of the caller
 * decide which file these tools load.
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

/** Loads a package that loads its native code itself. */
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

/** An error that says what to do. Its cause is the error of Node.js. */
export function cannotLoad(what: string, thrown: unknown): CsiError {
  const found = String((thrown as Error).message).split('\n')[0];
  return CsiError.failedPrecondition(`${what} cannot be loaded (${found}): ${REMEDY}`, {
    cause: thrown,
  });
}
