import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRouteConfig } from '../../../src/router/settings.js';

const BASE = {
  CSI_ENDPOINT: 'unix:///run/router.sock',
  BLOCKDELTA_ROUTE_NODES: 'file:/etc/nodes.json',
  BLOCKDELTA_TLS_CERTIFICATE: '/tls/tls.crt',
  BLOCKDELTA_TLS_KEY: '/tls/tls.key',
  BLOCKDELTA_TLS_CA: '/tls/ca.crt',
};

function refuses(env: Record<string, string>, message: RegExp, what?: string): void {
  const error = { name: 'ConfigError', message };
  assert.throws(() => parseRouteConfig({ ...BASE, ...env }), error, what);
}

test('a router needs a socket, a source of nodes and certificates, and has defaults for the rest', () => {
  const config = parseRouteConfig(BASE);
  assert.deepEqual(config.source, { kind: 'file', path: '/etc/nodes.json' });
  assert.equal(config.tls.peerName, 'blockdelta-node');
  assert.equal(config.topologyKey, 'blockdelta.csi/node');
  assert.equal(config.maxStreams, 256);
  assert.equal(config.metricsAddress, null);
  for (const name of Object.keys(BASE)) refuses({ [name]: '' }, new RegExp(`^${name}`));
});

test('pods are named by namespace and selector, with the port of the plugins', () => {
  const selector = 'app.kubernetes.io/name=blockdelta,component in (node)'.replace(/ /g, '');
  const config = parseRouteConfig({
    ...BASE,
    BLOCKDELTA_ROUTE_NODES: `kubernetes:storage/${selector}`,
    BLOCKDELTA_ROUTE_PORT: '7000',
    KUBERNETES_SERVICE_HOST: '10.96.0.1',
  });
  assert.deepEqual(config.source, {
    kind: 'kubernetes',
    namespace: 'storage',
    selector,
    port: 7000,
    taints: false,
    access: { host: '10.96.0.1', port: 443, accountDirectory: '/var/run/secrets/kubernetes.io/serviceaccount' },
  });
});

test('pods are asked for at the API server that Kubernetes names, and nowhere else', () => {
  const pods = { BLOCKDELTA_ROUTE_NODES: 'kubernetes:storage/a=b' };
  refuses(pods, /KUBERNETES_SERVICE_HOST is not set: run the router in a pod/);
  const inPod = { ...pods, KUBERNETES_SERVICE_HOST: '10.96.0.1' };
  for (const port of ['', '0', '65536', 'https']) {
    refuses({ ...inPod, KUBERNETES_SERVICE_PORT: port }, /KUBERNETES_SERVICE_PORT is/);
  }
  refuses({ ...inPod, BLOCKDELTA_ROUTE_ACCOUNT: 'account' }, /BLOCKDELTA_ROUTE_ACCOUNT/);
  refuses({ ...inPod, BLOCKDELTA_ROUTE_TAINTS: 'yes' }, /BLOCKDELTA_ROUTE_TAINTS/);
});

test('a source of nodes that cannot be one is refused with examples', () => {
  const wrong = ['nodes.json', 'file:nodes.json', 'http://x'];
  for (const value of [...wrong, 'kubernetes:storage', 'kubernetes:/a=b']) {
    refuses({ BLOCKDELTA_ROUTE_NODES: value }, /BLOCKDELTA_ROUTE_NODES is/, value);
  }
});

test('a misspelt setting is refused, and a setting of a node is not', () => {
  refuses({ BLOCKDELTA_ROUTE_NODE: 'file:/x' }, /did you mean BLOCKDELTA_ROUTE_NODES/);
  assert.ok(parseRouteConfig({ ...BASE, BLOCKDELTA_POOLS: 'main=/pool' }, ['BLOCKDELTA_POOLS']));
});
