/**
 * A plugin and a router with the settings of deploy/kubernetes and the certificates of certificates.sh find
 * each other, and serve what a sidecar asks. Only paths, ports and the source of the node list are others.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { packagePath } from '../../src/base/package-root.js';
import { nodeKey, nodeKeyOf } from '../../src/domain/identifiers.js';
import { type Container, cluster, container } from '../support/cluster.js';
import { skipWithoutKubectl } from '../support/manifests.js';
import { Plugin } from '../support/plugin.js';
import { RouterProcess } from '../support/router-process.js';
import { makePoolFileSystem, skipUnlessRoot, Workspace } from '../support/workspace.js';

const skip = skipUnlessRoot || skipWithoutKubectl;
const NODE = 'node-a';
let workspace: Workspace;
let plugin: Plugin;
let router: RouterProcess;
let routerMetrics: number;

/** The settings of a container, with the places that only a cluster has replaced. */
function settings(of: Container, places: Readonly<Record<string, string>>): Record<string, string> {
  const replaced = Object.entries(cluster('directory').environment(of)).map(([name, value]) => {
    const [from, to] = Object.entries(places).find(([place]) => value.includes(place)) ?? [];
    return [name, from === undefined ? value : value.replace(from, to ?? '')];
  });
  return Object.fromEntries(replaced);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : assert.fail();
}

before(async () => {
  if (skip !== false) return;
  workspace = new Workspace('kubernetes');
  const certificates = workspace.path('certificates');
  execFileSync(packagePath('deploy/kubernetes/certificates.sh'), [certificates]);
  const address = `127.0.0.1:${await freePort()}`;
  const { node, controller } = cluster('directory');
  const directory = workspace.path('csi');
  mkdirSync(directory);
  plugin = await Plugin.start(workspace, {
    env: settings(container(node, 'plugin'), {
      '/csi/csi.sock': workspace.path('plugin.sock'),
      '/var/lib/blockdelta': workspace.path('state'),
      '/srv/blockdelta': makePoolFileSystem(workspace, 'xfs', 1024),
      '0.0.0.0:9810': address,
      '/etc/blockdelta/tls': `${certificates}/node`,
    }),
  });
  writeFileSync(workspace.path('nodes.json'), JSON.stringify({ nodes: [{ id: NODE, address }] }));
  routerMetrics = await freePort();
  const env = settings(container(controller, 'router'), {
    '/csi/csi.sock': `${directory}/csi.sock`,
    '0.0.0.0:9811': `127.0.0.1:${routerMetrics}`,
    '/etc/blockdelta/tls': `${certificates}/router`,
  });
  router = await RouterProcess.start({
    socket: `${directory}/csi.sock`,
    env: { ...env, BLOCKDELTA_ROUTE_NODES: `file:${workspace.path('nodes.json')}` },
  });
});

after(async () => {
  await router?.stop();
  await plugin?.stop();
  workspace?.dispose();
});

test('a volume of each StorageClass is made through the router, on its node', {
  skip,
}, async () => {
  const [driver] = cluster('directory').of('CSIDriver');
  const info = await router.client.identity.GetPluginInfo({});
  assert.equal(info['name'], driver?.metadata.name);
  for (const { metadata, parameters } of cluster('directory').of('StorageClass')) {
    const segments = { 'blockdelta.csi/node': NODE };
    const answer = await router.client.controller.CreateVolume({
      name: `pvc-${metadata.name}`,
      capacity_range: { required_bytes: String(320n << 20n) },
      volume_capabilities: [
        {
          mount: { fs_type: parameters['csi.storage.k8s.io/fstype'] },
          access_mode: { mode: 'SINGLE_NODE_WRITER' },
        },
      ],
      parameters: { ...parameters, 'csi.storage.k8s.io/pvc/name': 'claim' },
      accessibility_requirements: { requisite: [{ segments }], preferred: [{ segments }] },
    });
    const { volume_id, accessible_topology } = answer['volume'];
    assert.deepEqual(accessible_topology, [{ segments }]);
    assert.equal(nodeKeyOf(volume_id), nodeKey(NODE));
    await router.client.controller.DeleteVolume({ volume_id });
  }
});

test('the probes of the manifests find the router alive and ready', { skip }, async () => {
  const { livenessProbe, readinessProbe } = container(cluster('directory').controller, 'router');
  for (const probe of [livenessProbe, readinessProbe]) {
    const response = await fetch(`http://127.0.0.1:${routerMetrics}${probe?.httpGet.path}`);
    assert.equal(response.status, 200, probe?.httpGet.path);
  }
});
