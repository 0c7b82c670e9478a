/** deploy/conformance fits the chart and its page, as far as that can be known without a cluster. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { packagePath } from '../../../src/base/package-root.js';
import { loadProgram } from '../../../src/cli/program.js';
import { checkoutText } from '../../support/checkout-text.js';
import { cluster } from '../../support/cluster.js';
import { assertValid, parseManifests, skipWithoutHelm as skip } from '../../support/manifests.js';
import { temporaryDirectory } from '../../support/temporary.js';

const DRIVER = parse(checkoutText('deploy/conformance/testdriver.yaml'));
const PAGE = checkoutText('docs/engineering/kubernetes-conformance.md');

test('the driver file names the driver, its topology and classes that every kind of pool has', {
  skip,
}, () => {
  for (const name of ['directory', 'embedded', 'thin', 'single-node']) {
    const { StorageClass, VolumeAttributesClass, DriverInfo } = DRIVER;
    assert.ok(cluster(name).has('StorageClass', StorageClass.FromExistingClassName));
    assert.ok(cluster(name).has('VolumeAttributesClass', VolumeAttributesClass.FromExistingClassName));
    assert.ok(cluster(name).has('CSIDriver', DriverInfo.Name));
    assert.deepEqual(DriverInfo.TopologyKeys, [`${DriverInfo.Name}/node`]);
  }
});

test('the page gives the reason for each capability that the driver file denies', () => {
  const denied = Object.entries(DRIVER.DriverInfo.Capabilities).filter(([, has]) => has === false);
  assert.ok(denied.length > 0);
  for (const [name] of denied) assert.ok(PAGE.includes(`\`${name}\``), name);
});

test('the tests of group snapshots get classes when the driver file says that there are groups, and the page says what cannot pass', () => {
  for (const kind of ['SnapshotClass', 'GroupSnapshotClass']) assert.ok(DRIVER[kind].FromName, kind);
  assert.match(PAGE, /^\| restores from group snapshots, with `groupSnapshot` \|/m);
});

test('a page names each file of the directory', () => {
  const pages = PAGE + checkoutText('docs/test-your-driver.md');
  for (const file of readdirSync(packagePath('deploy/conformance'))) {
    assert.ok(pages.includes(`deploy/conformance/${file}`), file);
  }
});

test('the Job is valid, and its command has options of conformance', { skip }, async () => {
  const manifests = parseManifests(checkoutText('deploy/conformance/job.yaml'));
  await assertValid(manifests);
  const [container] = manifests[0]?.['spec'].template.spec.containers ?? [];
  const { commands } = await loadProgram(null);
  const command = commands.find((each) => each.name() === 'conformance');
  const known = command?.options.map(({ long }) => long);
  const given = container.command.filter((word: string) => word.startsWith('--'));
  for (const option of given) assert.ok(known?.includes(option.split('=')[0]), option);
  assert.ok(
    given.some((option: string) => option.startsWith('--work-directory=/var/lib/kubelet/plugins/kubernetes.io/csi/')),
  );
});

function runSanity(env: Record<string, string>, ...args: string[]) {
  const script = packagePath('deploy/conformance/csi-sanity');
  return spawnSync(script, args, { encoding: 'utf8', env: { PATH: process.env['PATH'], ...env } });
}

test('the script for csi-sanity runs the program below the directory of the kubelet', async () => {
  const directory = temporaryDirectory();
  const [bin, plugins] = [join(directory, 'bin'), join(directory, 'plugins/blockdelta.csi')];
  for (const path of [bin, plugins]) mkdirSync(path, { recursive: true });
  writeFileSync(join(bin, 'csi-sanity'), '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n', { mode: 0o755 });
  const env = { KUBELET_DIRECTORY: directory, PATH: `${bin}:${process.env['PATH']}` };
  assert.match(runSanity(env).stderr, /csi\.sock is not a socket: name the plugin's in SOCKET/);
  const socket = join(plugins, 'csi.sock');
  const server = createServer().listen(socket);
  const { status, stdout, stderr } = runSanity(env, '--ginkgo.v');
  server.close();
  assert.deepEqual([status, stderr], [7, '']);
  const args = stdout.trimEnd().split('\n');
  assert.deepEqual([args[0], args.at(-1)], [`--csi.endpoint=unix://${socket}`, '--ginkgo.v']);
  assert.ok(args.includes(`--csi.stagingdir=${directory}/blockdelta-sanity/staging`));
  assert.deepEqual(readdirSync(directory).sort(), ['bin', 'plugins']);
});
