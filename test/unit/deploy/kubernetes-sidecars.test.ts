/** Images, flags and features of the sidecars in deploy/kubernetes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import {
  cluster,
  container,
  forEveryOverlay,
  KUBERNETES_DOCUMENT,
  OVERLAYS,
} from '../../support/cluster.js';
import { skipWithoutKubectl as skip } from '../../support/manifests.js';

forEveryOverlay('every image has a fixed version, which docs/kubernetes.md names', (cluster) => {
  for (const { containers } of cluster.pods) {
    for (const { name, image } of containers) {
      if (name === 'plugin' || name === 'router') {
        const { version } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'));
        assert.equal(image, `registry.example/blockdelta:${version}`);
      } else {
        assert.match(image, /:v\d+\.\d+\.\d+$/);
        assert.ok(KUBERNETES_DOCUMENT.includes(`| ${name} | \`${image}\` |`), image);
      }
    }
  }
});

test('docs/kubernetes.md explains every flag in use, and no other', { skip }, () => {
  const [, section = ''] = KUBERNETES_DOCUMENT.split('\n## Flags of the sidecars\n');
  const rows = [
    ...(section.split('\n## ')[0] ?? '').matchAll(/^\| (`--.*?) \| .* \| .* \| .+ \|$/gm),
  ];
  const explained = rows.flatMap(([, cell = '']) =>
    [...cell.matchAll(/`--([\w-]+)`/g)].map(([, name]) => name),
  );
  const used = cluster('complete').pods.flatMap(({ containers }) =>
    containers.flatMap(({ args }) => args.flatMap((arg) => /^--([\w-]+)/.exec(arg)?.[1] ?? [])),
  );
  assert.deepEqual([...new Set(used)].sort(), explained.sort());
});

test('group snapshots and snapshot metadata are on only in their overlays', { skip }, () => {
  for (const overlay of OVERLAYS) {
    const { controller } = cluster(overlay);
    const snapshotter = cluster(overlay).environment(container(controller, 'csi-snapshotter'));
    const groups = ['group-snapshots', 'complete'].includes(overlay);
    assert.equal(snapshotter['FEATURE_GATES'], `CSIVolumeGroupSnapshot=${groups}`);
    assert.equal(cluster(overlay).has('VolumeGroupSnapshotClass', 'blockdelta'), groups);
    const metadata = ['snapshot-metadata', 'complete'].includes(overlay);
    assert.equal(cluster(overlay).of('SnapshotMetadataService').length === 1, metadata);
    assert.equal(
      controller.containers.some(({ name }) => name === 'csi-snapshot-metadata'),
      metadata,
    );
    for (const { args } of controller.containers) {
      assert.ok(!args.some((arg) => arg.startsWith('--node-deployment')));
    }
  }
});

test('clients reach the sidecar under a name of its certificate, through the Service', {
  skip,
}, () => {
  const [metadataService] = cluster('complete').of('SnapshotMetadataService');
  const [host = '', port] = metadataService?.['spec'].address.split(':') ?? [];
  const service = cluster('complete').of('Service')[0];
  assert.equal(host, `${service?.metadata.name}.${service?.metadata.namespace}.svc`);
  assert.equal(port, String(service?.['spec'].ports[0].port));
  const certificate = cluster('complete')
    .of('Certificate')
    .find((candidate) => candidate['spec'].secretName === 'blockdelta-snapshot-metadata-tls');
  assert.ok(certificate?.['spec'].dnsNames.includes(host));
});
