/**
 * A plugin and a router with the settings of the Helm chart and the certificates of certificates.sh find
 * each other, with the rights of the manifests, and serve what a sidecar asks. Only paths and ports are others.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { nodeKey, nodeKeyOf } from '../../../src/base/csi/handles.js';
import { packagePath } from '../../../src/base/package-root.js';
import { type Container, cluster, container } from '../../support/cluster.js';
import { mountCapability } from '../../support/csi-client.js';
import { eventually } from '../../support/eventually.js';
import { loopbackAddress } from '../../support/loopback.js';
import { skipWithoutHelm } from '../../support/manifests.js';
import { createRequest, MIB } from '../../support/orchestrator.js';
import { Plugin } from '../../support/plugin.js';
import { type FakePod, PodsApi } from '../../support/pods-api.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../../support/workspace.js';

const skip = skipUnlessRoot || skipWithoutHelm;
const NODE = 'node-a';
const { host: NODE_HOST } = loopbackAddress();
const { host: ROUTER_HOST } = loopbackAddress();
const workspace = new Workspace('kubernetes');
let plugin: Plugin;
let router: Plugin;
let api: PodsApi;

/** The settings of a container, with the places that only a cluster has replaced. */
function settings(of: Container, places: Readonly<Record<string, string>>): Record<string, string> {
  const replaced = Object.entries(cluster('directory').environment(of)).map(([name, value]) => {
    const [from, to] = Object.entries(places).find(([place]) => value.includes(place)) ?? [];
    return [name, from === undefined ? value : value.replace(from, to ?? '')];
  });
  return Object.fromEntries(replaced);
}

/** Those of the manifests, each on the node. */
function pods(): FakePod[] {
  return cluster('directory').pods.map(({ owner, labels }) => ({
    metadata: { name: owner, namespace: 'blockdelta', labels },
    spec: { nodeName: labels['app.kubernetes.io/component'] === 'node' ? NODE : 'elsewhere' },
    status: { phase: 'Running', podIP: NODE_HOST },
  }));
}

before(async () => {
  if (skip !== false) return;
  const certificates = workspace.path('certificates');
  execFileSync(packagePath('deploy/kubernetes/certificates.sh'), [certificates, NODE]);
  const { node, controller } = cluster('directory');
  const directory = workspace.path('csi');
  mkdirSync(directory);
  plugin = await Plugin.start(workspace, {
    env: settings(container(node, 'plugin'), {
      '/csi/csi.sock': workspace.path('plugin.sock'),
      '/var/lib/blockdelta': workspace.path('state'),
      '/srv/blockdelta': makePoolFileSystem(workspace, 'xfs', 1024),
      '0.0.0.0:9810': `${NODE_HOST}:9810`,
      '/etc/blockdelta/tls': `${certificates}/nodes/${NODE}`,
    }),
  });
  const apiFiles = workspace.path('api');
  mkdirSync(apiFiles);
  const roles = cluster('directory')
    .of('Role')
    .filter(({ metadata }) => metadata.name === 'blockdelta-router');
  api = await PodsApi.start(roles, pods(), apiFiles);
  const env = settings(container(controller, 'router'), {
    '/csi/csi.sock': `${directory}/csi.sock`,
    '0.0.0.0:9811': `${ROUTER_HOST}:9811`,
    '/etc/blockdelta/tls': `${certificates}/router`,
  });
  router = await Plugin.route({ socket: `${directory}/csi.sock`, env: { ...env, ...api.environment } }).ready();
});

after(async () => {
  await router?.stop();
  api?.close();
  await plugin?.stop();
  workspace.dispose();
});

test('a volume of each StorageClass is made through the router, on its node', {
  skip,
}, async () => {
  const [driver] = cluster('directory').of('CSIDriver');
  const info = await router.client.identity.GetPluginInfo({});
  assert.equal(info['name'], driver?.metadata.name);
  for (const { metadata, parameters } of cluster('directory').of('StorageClass')) {
    const segments = { 'blockdelta.csi/node': NODE };
    const request = createRequest(`pvc-${metadata.name}`, {
      capability: mountCapability(parameters['csi.storage.k8s.io/fstype']),
      sizeBytes: 320 * MIB,
      parameters: { ...parameters, 'csi.storage.k8s.io/pvc/name': 'claim' },
    });
    const answer = await router.client.controller.CreateVolume({
      ...request,
      accessibility_requirements: { requisite: [{ segments }], preferred: [{ segments }] },
    });
    const { volume_id, accessible_topology } = answer['volume'];
    assert.deepEqual(accessible_topology, [{ segments }]);
    assert.equal(nodeKeyOf(volume_id), nodeKey(NODE));
    await router.client.controller.DeleteVolume({ volume_id });
  }
});

test('the probes find the router alive and ready, with the rights it has; it asks for nothing else', {
  skip,
}, async () => {
  const { livenessProbe, readinessProbe } = container(cluster('directory').controller, 'router');
  for (const probe of [livenessProbe, readinessProbe]) {
    const response = await fetch(`http://${ROUTER_HOST}:9811${probe?.httpGet.path}`);
    assert.equal(response.status, 200, probe?.httpGet.path);
  }
  const isWatched = () => api.requests.some((text) => text.startsWith('watch'));
  await eventually('the router watches', isWatched);
  const expected = ['list pods blockdelta', 'watch pods blockdelta'];
  assert.deepEqual([...new Set(api.requests)].sort(), expected);
  assert.doesNotMatch(router.log, /elsewhere/);
});
