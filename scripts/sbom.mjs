/**
 * Prints what is in the package or in an image, as CycloneDX, without the time and the number of the run.
 *
 *   sbom.mjs package                 the npm packages of the lock file that are packed along
 *   sbom.mjs image ARCH STATUS       these, Node.js, and the Debian packages of a dpkg status file
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { imageNode } from './package/targets.mjs';

const [what, arch, status] = process.argv.slice(2);
const root = new URL('..', import.meta.url);
const options = ['--package-lock-only', '--sbom-format=cyclonedx', '--sbom-type=application'];
const printed = execFileSync('npm', ['sbom', ...options], { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 });
const bom = JSON.parse(printed);
delete bom.serialNumber;
// npm takes the name of the directory.
bom.metadata.component.name = 'blockdelta';
bom.metadata.timestamp = new Date(Number(process.env.SOURCE_DATE_EPOCH) * 1000).toISOString();
// npm's own --omit=dev leaves out what development needs as well. Of what is packed, prepack.mjs takes out the optional.
const { packages } = JSON.parse(readFileSync(new URL('package-lock.json', root), 'utf8'));
const packed = Object.entries(packages)
  .filter(([path, { dev, optional, link }]) => path.startsWith('node_modules/') && !dev && !optional && !link)
  .map(([path, { version }]) => `${path.replace(/.*node_modules\//, '')}@${version}`);
const own = bom.metadata.component['bom-ref'];
bom.components = bom.components.filter((each) => packed.includes(each['bom-ref']));
bom.dependencies = bom.dependencies
  .filter(({ ref }) => ref === own || packed.includes(ref))
  .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => packed.includes(each)) }));
if (what === 'image') {
  const { name, version, integrity } = imageNode({ amd64: 'x64' }[arch] ?? arch);
  const content = Buffer.from(integrity.replace('sha512-', ''), 'base64').toString('hex');
  const purl = `pkg:npm/${name}@${version}`;
  bom.components.push({
    ...{ type: 'platform', 'bom-ref': purl, name, version, purl, hashes: [{ alg: 'SHA-512', content }] },
  });
  bom.components.push(...readFileSync(status, 'utf8').trim().split('\n\n').map(debianComponent));
}
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`);

function debianComponent(stanza) {
  const field = (name) => new RegExp(`^${name}: (.*)$`, 'm').exec(stanza)?.[1] ?? '';
  const [name, version] = [field('Package'), field('Version')];
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${field('Architecture')}&distro=bookworm`;
  return { type: 'library', 'bom-ref': purl, name, version, purl };
}
