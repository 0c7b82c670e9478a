/** Objects, ports, sockets and certificates that deploy/kubernetes refers to are there. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { packagePath } from '../../../src/base/package-root.js';
import { SETTINGS } from '../../../src/config/config.js';
import {
  type Cluster,
  cluster,
  container,
  flag,
  forEveryOverlay,
  KUBERNETES_DOCUMENT,
  OVERLAYS,
  type Pod,
} from '../../support/cluster.js';
import { skipWithoutKubectl as skip } from '../../support/manifests.js';

const DRIVER = SETTINGS.BLOCKDELTA_DRIVER_NAME.fallback;

forEveryOverlay('every reference leads to an object', (cluster) => {
  const madeByHand = ['node', 'router', 'snapshot-metadata'].map(
    (name) => `blockdelta-${name}-tls`,
  );
  const certificates = cluster.of('Certificate').map(({ spec }) => spec.secretName);
  for (const pod of cluster.pods) {
    assert.ok(cluster.has('ServiceAccount', pod.account), pod.account);
    const volumes = pod.volumes.map(({ name }) => name);
    const mounted = pod.containers.flatMap(({ volumeMounts }) =>
      volumeMounts.map(({ name }) => name),
    );
    assert.deepEqual([...new Set(mounted)].sort(), [...volumes].sort(), pod.owner);
    for (const { secret, configMap } of pod.volumes) {
      if (secret !== undefined) {
        assert.ok([...madeByHand, ...certificates].includes(secret.secretName), secret.secretName);
        if (certificates.length > 0) assert.ok(certificates.includes(secret.secretName));
        assert.match(KUBERNETES_DOCUMENT, new RegExp(`^\\| \`${secret.secretName}\` \\|`, 'm'));
      }
      if (configMap !== undefined) assert.ok(cluster.has('ConfigMap', configMap.name));
    }
  }
  for (const binding of [...cluster.of('RoleBinding'), ...cluster.of('ClusterRoleBinding')]) {
    assert.ok(cluster.has(binding['roleRef'].kind, binding['roleRef'].name), binding.metadata.name);
    for (const { kind, name, namespace } of binding['subjects']) {
      assert.ok(cluster.has(kind, name), name);
      assert.equal(namespace, 'blockdelta');
    }
  }
  for (const { spec } of cluster.of('Certificate')) {
    assert.ok(cluster.has(spec.issuerRef.kind, spec.issuerRef.name));
  }
  const issued = cluster.of('Issuer').flatMap(({ spec }) => spec.ca?.secretName ?? []);
  for (const name of issued) assert.ok(certificates.includes(name), name);
});

forEveryOverlay('every object that has a namespace is in blockdelta', (cluster) => {
  const clusterWide = [
    ...['Namespace', 'CSIDriver', 'ClusterRole', 'ClusterRoleBinding', 'StorageClass'],
    ...['VolumeSnapshotClass', 'VolumeGroupSnapshotClass', 'VolumeAttributesClass'],
    'SnapshotMetadataService',
  ];
  for (const { kind, metadata } of cluster.manifests) {
    const wanted = clusterWide.includes(kind) ? undefined : 'blockdelta';
    assert.equal(metadata.namespace, wanted, `${kind} ${metadata.name}`);
  }
});

forEveryOverlay('ports have one user in a pod, and whatever names a port finds it', (cluster) => {
  for (const pod of cluster.pods) {
    const ports = pod.containers.flatMap(({ ports = [] }) => ports);
    const numbers = ports.map(({ containerPort }) => containerPort);
    const names = ports.map(({ name }) => name);
    assert.equal(new Set(numbers).size, numbers.length, pod.owner);
    assert.equal(new Set(names).size, names.length, pod.owner);
    // The limit of the API.
    for (const name of names) assert.ok(name.length <= 15, name);
    for (const { livenessProbe, readinessProbe } of pod.containers) {
      for (const probe of [livenessProbe, readinessProbe]) {
        if (probe !== undefined) assert.ok(names.includes(probe.httpGet.port), probe.httpGet.port);
      }
    }
  }
  for (const { metadata, spec } of cluster.of('Service')) {
    const pods = cluster.selectedBy(spec.selector);
    assert.equal(pods.length, 1, metadata.name);
    for (const { targetPort } of spec.ports) assertPort(pods, targetPort);
  }
  for (const { spec } of cluster.of('NetworkPolicy')) {
    const pods = cluster.selectedBy(spec.podSelector.matchLabels);
    assert.ok(pods.length > 0);
    for (const { ports, from } of spec.ingress ?? []) {
      for (const { port } of ports) assertPort(cluster.pods, port, cluster);
      for (const { podSelector } of from) {
        if (podSelector === undefined) continue;
        assert.ok(cluster.selectedBy(podSelector.matchLabels).length > 0);
      }
    }
  }
  for (const { spec } of [...cluster.of('PodMonitor'), ...cluster.of('PodDisruptionBudget')]) {
    const pods = cluster.selectedBy(spec.selector.matchLabels);
    assert.equal(pods.length, 1);
    for (const { port } of spec.podMetricsEndpoints ?? []) assertPort(pods, port, cluster);
  }
});

/** Ports of components that an overlay does not have are no targets. */
function assertPort(pods: readonly Pod[], port: string, optionalIn?: Cluster): void {
  const names = pods.flatMap(({ containers }) =>
    containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name)),
  );
  const known = optionalIn === undefined ? names : [...names, 'md-health', 'metrics'];
  assert.ok(known.includes(port), port);
}

forEveryOverlay('flags and settings name the ports that the containers declare', (cluster) => {
  for (const pod of cluster.pods) {
    for (const candidate of pod.containers) {
      const own = (candidate.ports ?? []).map(({ containerPort }) => `:${containerPort}`);
      const env = cluster.environment(candidate);
      const endpoints = [
        ['BLOCKDELTA_LISTEN_ADDRESS', 'BLOCKDELTA_METRICS_ADDRESS'].flatMap(
          (key) => env[key] ?? [],
        ),
        flag(candidate, 'http-endpoint') ?? [],
        flag(candidate, 'port') === undefined ? [] : `:${flag(candidate, 'port')}`,
      ].flat();
      for (const endpoint of endpoints) {
        // livenessprobe serves the port of the container that it probes.
        if (candidate.name === 'livenessprobe') continue;
        assert.ok(
          own.some((port) => endpoint.endsWith(port)),
          `${candidate.name}: ${endpoint}`,
        );
      }
    }
  }
});

forEveryOverlay(
  'all containers find the CSI socket, and only one serves it',
  (cluster, overlay) => {
    for (const pod of cluster.pods) {
      const servers = pod.containers.filter(({ env = [] }) =>
        env.some(({ name }) => name === 'CSI_ENDPOINT'),
      );
      const isController = pod === cluster.controller;
      const single = overlay === 'single-node';
      assert.equal(servers.length, isController && single ? 0 : 1, pod.owner);
      for (const server of servers) {
        assert.equal(cluster.environment(server)['CSI_ENDPOINT'], 'unix:///csi/csi.sock');
      }
      const directory = isController ? 'socket-directory' : 'plugin-directory';
      for (const { name, args, volumeMounts } of pod.containers) {
        const mount = volumeMounts.find(({ mountPath }) => mountPath === '/csi');
        assert.equal(mount?.name, directory, name);
        if (args.some((arg) => arg.startsWith('--csi-address'))) {
          assert.ok(args.includes('--csi-address=/csi/csi.sock'), name);
        }
      }
    }
  },
);

test('a router goes with certificates and NetworkPolicies, one node without them', { skip }, () => {
  for (const overlay of OVERLAYS) {
    const routed = cluster(overlay).controller.containers.some(({ name }) => name === 'router');
    assert.equal(routed, overlay !== 'single-node', overlay);
    const env = cluster(overlay).environment(container(cluster(overlay).node, 'plugin'));
    assert.equal(env['BLOCKDELTA_LISTEN_ADDRESS'] !== undefined, routed);
    assert.equal(cluster(overlay).has('NetworkPolicy', 'blockdelta-node'), routed);
    assert.equal(cluster(overlay).has('PodDisruptionBudget', 'blockdelta-controller'), routed);
    if (!routed) continue;
    const router = cluster(overlay).environment(container(cluster(overlay).controller, 'router'));
    assert.equal(router['BLOCKDELTA_DRIVER_NAME'], DRIVER);
    assert.ok(env['BLOCKDELTA_LISTEN_ADDRESS']?.endsWith(`:${router['BLOCKDELTA_ROUTE_PORT']}`));
    const rest = router['BLOCKDELTA_ROUTE_NODES']?.slice('kubernetes:blockdelta/'.length) ?? '';
    const labels = Object.fromEntries(rest.split(',').map((part) => part.split('=')));
    assert.deepEqual(cluster(overlay).selectedBy(labels), [cluster(overlay).node]);
    const names = {
      [env['BLOCKDELTA_TLS_PEER_NAME'] ?? '']: 'client auth',
      [router['BLOCKDELTA_TLS_PEER_NAME'] ?? '']: 'server auth',
    };
    for (const { spec } of cluster(overlay).of('Certificate')) {
      const [name = ''] = spec.dnsNames ?? [];
      if (names[name] !== undefined) assert.ok(spec.usages.includes(names[name]));
    }
    assert.deepEqual(Object.keys(names), ['blockdelta-router', 'blockdelta-node']);
  }
});

test('Prometheus scrapes the plugin as the job that the alert rules expect', { skip }, () => {
  const job = /scrape job named `([\w-]+)`/.exec(
    readFileSync(packagePath('docs/alerts.md'), 'utf8'),
  )?.[1];
  const monitor = cluster('complete')
    .of('PodMonitor')
    .find(({ metadata }) => metadata.name === 'blockdelta-node');
  assert.equal(cluster('complete').node.labels[monitor?.['spec'].jobLabel], job);
});
