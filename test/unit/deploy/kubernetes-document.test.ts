/** The examples of docs/kubernetes.md work as they stand there. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { nodeKeyOf } from '../../../src/base/csi/handles.js';
import { cluster, KEPT, KUBERNETES_DOCUMENT, render } from '../../support/cluster.js';
import {
  assertValid,
  helmTemplate,
  kustomize,
  type Manifest,
  parseManifests,
  skipWithoutHelm as skip,
} from '../../support/manifests.js';
import { temporaryDirectory } from '../../support/temporary.js';

/** The YAML block of the document that contains a text. */
function example(containing: string): string {
  const blocks = [...KUBERNETES_DOCUMENT.matchAll(/^```yaml\n([\s\S]*?)^```$/gm)];
  const found = blocks.map(([, text = '']) => text).filter((text) => text.includes(containing));
  assert.equal(found.length, 1, containing);
  return found[0] ?? '';
}

/** Renders a kustomization that stands beside the directory of the release. */
function renderExample(text: string): Manifest[] {
  const directory = temporaryDirectory();
  const manifests = relative(directory, dirname(render('snapshot-metadata')));
  const paths = text.replaceAll('../kubernetes/', `${manifests}/`);
  writeFileSync(join(directory, 'kustomization.yaml'), paths);
  return kustomize(directory);
}

const OWN = example('newName:');

test('the example of an own kustomization renders, with its image and its setting', {
  skip,
}, async () => {
  const manifests = renderExample(OWN);
  await assertValid(manifests);
  const text = JSON.stringify(manifests);
  assert.ok(!text.includes('registry.example'));
  assert.ok(text.includes('images.mycompany.example/storage/blockdelta:0.1.0'));
  assert.match(text, /{"name":"BLOCKDELTA_RESERVE_PERCENT","value":"10"}/);
  assert.match(text, /{"name":"BLOCKDELTA_POOLS","value":"data=directory:\/srv\/blockdelta"}/);
});

test('the example of values renders, and its values reach the objects', { skip }, async () => {
  const manifests = helmTemplate(parse(example('# my-values.yaml')));
  await assertValid(manifests);
  const text = JSON.stringify(manifests);
  for (const gone of ['registry.example', '/srv/blockdelta', '/var/lib/kubelet']) {
    assert.ok(!text.includes(gone), gone);
  }
  assert.ok(text.includes('"mountPath":"/var/lib/k0s/kubelet","mountPropagation":"Bidirectional"'));
  assert.match(text, /{"name":"BLOCKDELTA_RESERVE_PERCENT","value":"10"}/);
});

test('the patch with the authority of the snapshot metadata service changes it', {
  skip,
}, async () => {
  const manifests = renderExample(`${OWN}\n${example('caCert:')}`);
  await assertValid(manifests);
  const service = manifests.find(({ kind }) => kind === 'SnapshotMetadataService');
  const authority = Buffer.from(service?.['spec'].caCert, 'base64').toString();
  assert.match(authority, /^-----BEGIN CERTIFICATE-----/);
  assert.match(service?.['spec'].address, /^blockdelta-snapshot-metadata\./);
});

test('the objects that try a volume are valid, and use classes that exist', async () => {
  const objects = parseManifests(example('ReadWriteOncePod'));
  await assertValid(objects);
  const classes = cluster(KEPT).manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  const [claim, , snapshot] = objects;
  assert.ok(classes.includes(`StorageClass ${claim?.['spec'].storageClassName}`));
  assert.ok(classes.includes(`VolumeSnapshotClass ${snapshot?.['spec'].volumeSnapshotClassName}`));
});

test('the object that has an unused volume deleted is valid, and Kubernetes takes it for released', async () => {
  const [volume] = parseManifests(example('kind: PersistentVolume\n'));
  assert.ok(volume);
  await assertValid([volume]);
  const driver = cluster(KEPT).manifests.find(({ kind }) => kind === 'CSIDriver');
  const name = driver?.metadata.name;
  const { annotations } = volume.metadata as { annotations?: Record<string, string> };
  assert.deepEqual(annotations, { 'pv.kubernetes.io/provisioned-by': name });
  const { csi, claimRef, persistentVolumeReclaimPolicy } = volume['spec'];
  assert.deepEqual([csi.driver, persistentVolumeReclaimPolicy], [name, 'Delete']);
  assert.ok(claimRef.uid, 'of a claim that has gone');
  assert.match(nodeKeyOf(csi.volumeHandle) ?? '', /^[0-9a-f]{12}$/);
});

/** The commands of a section, in their order. */
const commandsOf = (heading: string): string[] => {
  const [, section = ''] = KUBERNETES_DOCUMENT.split(`\n${heading}\n`);
  return [...(section.split(/\n##+ /)[0]?.matchAll(/^ {4}(\S.*)$/gm) ?? [])].map(([, line = '']) => line);
};

test('each snapshot of a lost node is deleted before the finalizers of its content go, after its handle was shown', () => {
  const commands = commandsOf('### A node is lost');
  const order = [
    /get volumesnapshotcontents .*HANDLE:\.status\.snapshotHandle/,
    /delete pvc CLAIM/,
    /patch pv VOLUME .*finalizers/,
    /delete pv VOLUME/,
    /delete volumesnapshot SNAPSHOT --wait=false/,
    /patch volumesnapshotcontent CONTENT .*finalizers/,
  ].map((wanted) => commands.findIndex((command) => wanted.test(command)));
  assert.ok(!order.includes(-1), `${order}`);
  assert.deepEqual(
    order,
    order.toSorted((a, b) => a - b),
  );
});

test('the page knows the pod whose restored volume and empty volume are on two nodes', () => {
  const [row = ''] = /^\| .*didn't match PersistentVolume's node affinity.*$/m.exec(KUBERNETES_DOCUMENT) ?? [];
  assert.match(row, /restores or clones .* empty claim .*\| delete the pod and the claim that was empty/);
});

test('the page names the Leases that the sidecars leave', () => {
  const [, uninstall = ''] = KUBERNETES_DOCUMENT.split('\n## Uninstall\n');
  for (const prefix of ['', 'external-resizer-', 'external-snapshotter-leader-']) {
    assert.ok(uninstall.includes(`\`${prefix}blockdelta-csi\``), prefix);
  }
  assert.ok(commandsOf('## Uninstall').includes('kubectl delete namespace blockdelta'));
});

test('every command is run by a test, or stands below a mark that it is not', () => {
  const run = [
    /^kubectl kustomize deploy\/kubernetes\/single-node$/,
    /^deploy\/kubernetes\/certificates\.sh certificates node-a node-b$/,
  ];
  for (const section of KUBERNETES_DOCUMENT.split(/\n##+ /)) {
    const text = section.replaceAll(/^```\w+$[\s\S]*?^```$/gm, '');
    const commands = [...text.matchAll(/^ {4}(.*)$/gm)].map(([, command = '']) => command);
    const marked = section.includes('*(not run by a test)*');
    for (const command of commands) {
      assert.ok(marked || run.some((known) => known.test(command)), command);
    }
  }
});
