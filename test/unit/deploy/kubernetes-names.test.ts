/** Settings, parameters and the driver's name in deploy/kubernetes are those of the plugin. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { LAST_RESORT_MS } from '../../../src/cli/service-process.js';
import { parseConfig, SETTINGS, SOCKET_PATH_MAX } from '../../../src/config/config.js';
import { parseRouteConfig, ROUTE_SETTINGS } from '../../../src/config/route.js';
import { isOrchestratorKey } from '../../../src/csi/orchestrator-keys.js';
import type { VolumeCapability } from '../../../src/domain/volume-capability.js';
import { isFileSystem } from '../../../src/host/file-systems.js';
import { parseDeviceSettings } from '../../../src/volumes/device-settings.js';
import { parseVolumeParameters } from '../../../src/volumes/volume-parameters.js';
import {
  cluster,
  container,
  flag,
  forEveryOverlay,
  KUBERNETES,
  OVERLAYS,
} from '../../support/cluster.js';
import { skipWithoutKubectl as skip } from '../../support/manifests.js';

const DRIVER = SETTINGS.BLOCKDELTA_DRIVER_NAME.fallback;

forEveryOverlay(
  'the plugin accepts its environment, and every variable is a setting',
  (cluster) => {
    const env = cluster.environment(container(cluster.node, 'plugin'));
    assert.deepEqual(
      Object.keys(env).filter((name) => !(name in SETTINGS)),
      [],
    );
    const config = parseConfig(env);
    assert.equal(config.driverName, DRIVER);
    assert.equal(env['BLOCKDELTA_POOLS'] === undefined, false);
  },
);

forEveryOverlay(
  'the router accepts its environment, and every variable is a setting',
  (cluster) => {
    const router = cluster.controller.containers.find(({ name }) => name === 'router');
    if (router === undefined) return;
    const { NAMESPACE: namespace, ...env } = cluster.environment(router);
    assert.deepEqual(
      Object.keys(env).filter((name) => !(name in ROUTE_SETTINGS)),
      [],
    );
    const config = parseRouteConfig(env);
    assert.equal(config.driverName, DRIVER);
    assert.equal(config.source.kind, 'kubernetes');
    assert.equal(config.source.kind === 'kubernetes' && config.source.namespace, namespace);
    const ends = config.shutdownGraceMs + LAST_RESORT_MS;
    assert.ok(Number(cluster.controller.spec['terminationGracePeriodSeconds']) * 1000 > ends);
  },
);

forEveryOverlay('the node id is the name of the node', (cluster) => {
  const { env = [] } = container(cluster.node, 'plugin');
  const id = env.find(({ name }) => name === 'BLOCKDELTA_NODE_ID');
  assert.equal(id?.valueFrom?.fieldRef.fieldPath, 'spec.nodeName');
});

forEveryOverlay('every object and path names the same driver', (cluster) => {
  const [driver] = cluster.of('CSIDriver');
  assert.equal(driver?.metadata.name, DRIVER);
  for (const { provisioner } of cluster.of('StorageClass')) assert.equal(provisioner, DRIVER);
  for (const { driverName } of cluster.of('VolumeAttributesClass')) {
    assert.equal(driverName, DRIVER);
  }
  for (const kind of ['VolumeSnapshotClass', 'VolumeGroupSnapshotClass']) {
    for (const { driver: name } of cluster.of(kind)) assert.equal(name, DRIVER);
  }
  for (const { metadata } of cluster.of('SnapshotMetadataService')) {
    assert.equal(metadata.name, DRIVER);
  }
  const socket = `/var/lib/kubelet/plugins/${DRIVER}/csi.sock`;
  assert.ok(socket.length <= SOCKET_PATH_MAX);
  const registrar = container(cluster.node, 'node-driver-registrar');
  assert.equal(flag(registrar, 'kubelet-registration-path'), socket);
  const directory = cluster.node.volumes.find(({ name }) => name === 'plugin-directory');
  assert.equal(`${directory?.hostPath?.path}/csi.sock`, socket);
});

forEveryOverlay('every StorageClass has parameters that the plugin accepts', (cluster) => {
  const classes = cluster.of('StorageClass');
  assert.equal(classes.length, 3);
  for (const storageClass of classes) {
    const parameters = storageClass['parameters'] as Record<string, string>;
    const fsType = parameters['csi.storage.k8s.io/fstype'] ?? '';
    assert.ok(isFileSystem(fsType), fsType);
    for (const key of Object.keys(parameters).filter(isOrchestratorKey)) {
      assert.equal(key, 'csi.storage.k8s.io/fstype');
    }
    const capability = { accessType: 'mount', fsType } as VolumeCapability;
    parseVolumeParameters(parameters, { capabilities: [capability], isRestored: false });
    assert.equal(storageClass['volumeBindingMode'], 'WaitForFirstConsumer');
    assert.equal(storageClass['allowVolumeExpansion'], true);
  }
});

forEveryOverlay('every VolumeAttributesClass has parameters that the plugin accepts', (cluster) => {
  const classes = cluster.of('VolumeAttributesClass');
  assert.ok(classes.length > 0);
  for (const { parameters } of classes) parseDeviceSettings(parameters, 'parameters');
});

test('limits of pods are offered only where the plugin can set them', { skip }, () => {
  for (const overlay of OVERLAYS) {
    const limited = cluster(overlay)
      .of('VolumeAttributesClass')
      .some(({ parameters }) => Object.keys(parameters).some((key) => key.endsWith('PerSecond')));
    const plugin = container(cluster(overlay).node, 'plugin');
    const root = cluster(overlay).environment(plugin)['BLOCKDELTA_CGROUP_ROOT'];
    assert.equal(root !== undefined, limited, overlay);
    if (root === undefined) continue;
    const mount = plugin.volumeMounts.find(({ mountPath }) => mountPath === root);
    assert.ok(mount !== undefined && mount.readOnly !== true);
  }
});

forEveryOverlay('the CSIDriver object says what the plugin does', (cluster) => {
  assert.deepEqual(cluster.of('CSIDriver')[0]?.['spec'], {
    attachRequired: SETTINGS.BLOCKDELTA_CONTROLLER_PUBLISH.fallback !== 'off',
    podInfoOnMount: true,
    storageCapacity: true,
    fsGroupPolicy: 'File',
    requiresRepublish: false,
    seLinuxMount: false,
    volumeLifecycleModes: ['Persistent'],
  });
});

test('a comment argues each field of the CSIDriver object', () => {
  const text = readFileSync(packagePath(`${KUBERNETES}/base/csidriver.yaml`), 'utf8');
  const [, spec = ''] = text.split('\nspec:\n');
  const fields = [...spec.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name);
  const argued = [...spec.matchAll(/^ {2}#.*\n(?: {2}#.*\n)* {2}(\w+):/gm)].map(([, name]) => name);
  assert.deepEqual(argued, fields);
});
