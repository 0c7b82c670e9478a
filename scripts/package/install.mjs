/**
 * What npm runs when it installs blockdelta: keeps each prebuilt binary that works here, and compiles the
 * others.
 *
 * A binary works if this Node.js loads it: that covers the processor, the C library and the release of
 * Node.js at once. Compiling needs node-gyp, which npm brings along and puts on the path of install
 * scripts. In a checkout nothing is prebuilt, so `npm ci` compiles.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { BUNDLED, OWN_BINARIES, ownPrebuilds, PACKED_GYP, problemOf, root } from './modules.mjs';

const prebuilt = ownPrebuilds(process.arch);
const own = !existsSync(prebuilt)
  ? `no prebuilt binaries for ${process.arch}`
  : problemOf(root, `require(${JSON.stringify(join(prebuilt, OWN_BINARIES[0]))})`);
const broken = own === null ? [] : [{ name: 'blockdelta', directory: root, reason: own }];
for (const { name, directory, use } of BUNDLED) {
  const reason = problemOf(directory, use);
  if (reason !== null) broken.push({ name, directory, reason });
}
for (const each of broken) compile(each);

function compile({ name, directory, reason }) {
  console.log(`blockdelta: compiling ${name}: ${reason}`);
  const packed = join(directory, PACKED_GYP);
  const gyp = join(directory, 'binding.gyp');
  if (existsSync(packed)) cpSync(packed, gyp);
  const { status, error } = spawnSync('node-gyp', ['rebuild'], { cwd: directory, stdio: 'inherit' });
  if (existsSync(packed)) rmSync(gyp);
  if (status === 0) return;
  const found = error?.code === 'ENOENT' ? 'there is no node-gyp on the path' : 'node-gyp failed, see above';
  console.error(
    `blockdelta: ${name} has no binary for Node.js ${process.version} on ${process.arch}, and cannot be compiled: ${found}.\n` +
      'Use a release of Node.js that the package has binaries for (docs/install.md), or install g++, make, python3 ' +
      'and, if npm has none, node-gyp; then run: npm rebuild blockdelta',
  );
  process.exit(1);
}
