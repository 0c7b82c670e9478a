/** Which processors and releases of Node.js a package has binaries for, and with which compilers they are built. */

/** Long-term support releases, by the package of the registry that has their headers. */
const RELEASES = [
  { major: 20, abi: '115', headers: '20.20.2' },
  { major: 22, abi: '127', headers: '22.23.3' },
  { major: 24, abi: '137', headers: '24.21.0' },
  { major: 26, abi: '147', headers: '26.10.0' },
];
const COMPILERS = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };

/** This machine's. */
export const hostTarget = () => ({
  arch: process.arch,
  abi: process.versions.modules,
  major: Number(process.versions.node.split('.')[0]),
});

/** `what`: 'all', or 'host' for this machine's alone. */
export function targets(what) {
  if (what === 'all') return { archs: Object.keys(COMPILERS), releases: RELEASES };
  if (what === 'host') return { archs: [process.arch], releases: [hostTarget()] };
  throw new Error(`BLOCKDELTA_PREBUILD is 'all' or 'host', not '${what}'`);
}

/** Prefix of Debian's cross compiler and its binutils. */
export const toolPrefix = (arch) => COMPILERS[arch];
export const crossCompiler = (arch) => ({
  CC: `${COMPILERS[arch]}-gcc`,
  CXX: `${COMPILERS[arch]}-g++`,
  AR: `${COMPILERS[arch]}-ar`,
});
